// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>

/// \file
/// The contract of a masked diffusion language model: it reads whole canvases, in which some tokens
/// are still masks, and says for positions that it is asked about which token it would put there.
/// (LLaDA, Nie et al. 2025, arXiv:2502.09992; Dream, Ye et al. 2025, arXiv:2508.15487)

namespace hunch::diffusion {

/// The canvases of one forward pass, in structure-of-arrays form: buffers of the decoder's
/// executor, which stay as they are until the pass has run.
///
/// A canvas is the whole text of one request as it would be if some drafts were accepted: prompt,
/// then the answer with mask tokens where nothing has been unmasked. Canvases of one request are
/// adjacent; the first of them is the text as it is committed, and each one after it has one more
/// token unmasked than one before it. No two are alike.
///
/// The wanted positions are flattened over the canvases: those of canvas i are elements
/// [first_wanted[i], first_wanted[i + 1]), in ascending order. All are masked, and never position
/// 0. Only positions that may be unmasked next or drafted are wanted, so that a head over a large
/// vocabulary is not paid for a whole canvas.
///
/// Where the host does not read the executor's memory (see `host_reads`), the last canvases may be
/// padding: their slot is `no_slot`, they have no tokens, and nothing is wanted of them. All arrays
/// are then filled when what was launched before has run; a model looks at them on the executor, in
/// order with its launches, and at nothing on the host but `size`, `token_count` and
/// `wanted_count`.
struct canvases {
  std::int32_t size = 0;                ///< canvases in the pass
  const std::int32_t* slot = nullptr;   ///< [size] of the request, in [0, max batch)
  const std::int32_t* first = nullptr;  ///< [size + 1] canvas i: tokens [first[i], first[i + 1])
  const token* tokens = nullptr;        ///< [first[size]] the mask token where nothing is unmasked

  /// [size] where the first block with masks of the committed text begins: the same in all canvases
  /// of a request in a pass. Positions before it are final: they hold the same tokens in every
  /// later canvas of the request. A model in which tokens do not read what comes after their block
  /// may keep what it computed for them.
  const std::int32_t* known = nullptr;
  const std::int32_t* block_end = nullptr;  ///< [size] after that block

  /// [size] 1 where a `BlockCachedModel` is to fill its cache from this canvas, else 0. Always 0
  /// for other models.
  const std::uint8_t* opens = nullptr;

  const std::int32_t* first_wanted = nullptr;  ///< [size + 1]
  const std::int32_t* wanted = nullptr;        ///< [first_wanted[size]] positions

  /// [size] 1 in the first pass that a model makes of a request: what it kept of the slot was
  /// another's. All passes of a draft model in the first round in which it is asked have it, and so
  /// has a pass that is repeated.
  const std::uint8_t* begins = nullptr;

  std::int32_t token_count = 0;   ///< first[size]; with padding, the most that it may be
  std::int32_t wanted_count = 0;  ///< first_wanted[size], likewise

  /// The tokens of canvas i.
  HUNCH_HOST_DEVICE row_view<const token> canvas(std::int32_t i) const {
    return {tokens + first[i], first[i + 1] - first[i]};
  }
  /// The positions wanted of canvas i.
  HUNCH_HOST_DEVICE row_view<const std::int32_t> wanted_of(std::int32_t i) const {
    return {wanted + first_wanted[i], first_wanted[i + 1] - first_wanted[i]};
  }
};

/// The result of a masked model's forward pass.
///
/// 1. `e.logits(i)` is a mutable `row_view<T>` of V logits for the token at wanted position i of
///    the pass, counted over all canvases, as `canvases::wanted` is; rows do not overlap. It stays
///    valid until the next `evaluate`. The library edits these rows in place, at most once, by
///    bodies of the decoder's executor: they are complete by the time that it runs what it is given
///    next.
/// 2. In passes with padding there are `wanted_count` rows; those behind the last wanted position
///    are not read. In a loop that is repeated, row i lies at the same address in every pass.
///
/// Not required: ownership, contiguity between rows, or logits of positions that were not wanted.
template <class E>
concept MaskedEvaluation = requires(E& e, std::int32_t i) {
  e.logits(i);
  requires detail::is_row_view<decltype(e.logits(i))>;
};

/// A model that fills masks.
///
/// 1. `m.vocab_size()` is V, the number of logits in a row.
/// 2. `m.mask_token()` is the id that stands for "not unmasked", 0 or more. It is never unmasked,
///    whatever its logit; it may lie outside of [0, V).
/// 3. `m.max_positions()` is the length of the longest canvas that it can read.
/// 4. `m.evaluate(canvases)` runs one forward pass over the canvases and returns a
///    `MaskedEvaluation`. It may throw; the same call may then be made again.
/// 5. `m.release(slot)` says that the slot's request has ended; does not throw. A model that keeps
///    nothing between passes has nothing to do. A loop that repeats itself says it by
///    `canvases::begins` alone, when another request has the slot.
/// 6. If evaluate looks at the arrays on the host, as models without an executor do, it may say so
///    by `static constexpr bool reads_on_host = true`: then it is refused where the host does not
///    reach them.
///
/// The logits are a function of the canvas and the wanted position, and of nothing else: not of
/// the slot, the rows beside it or the passes before, nor of `known`, which is another for a text
/// that is drafted and for the same text once it is committed. What a model keeps of a `known`
/// prefix must be such that this holds; for other caches there is `BlockCachedModel`.
///
/// The law of position i is that of row i. A network that was made from an autoregressive one, as
/// Dream was, has that law in the output row before: `right_shifted` puts this right.
///
/// Not required: a batch dimension (canvases are ragged), any type for weights or caches,
/// copyability.
template <class M>
concept MaskedModel = requires(M& m, const canvases& c, std::int32_t slot) {
  { m.vocab_size() } -> std::convertible_to<std::int32_t>;
  { m.mask_token() } -> std::convertible_to<token>;
  { m.max_positions() } -> std::convertible_to<std::int32_t>;
  { m.evaluate(c) } -> MaskedEvaluation;
  { m.release(slot) }
  noexcept;
};

/// A masked model whose logits depend on a cache that was filled when a block was begun, and that
/// goes stale while the block is unmasked, by `static constexpr bool caches_blocks = true`. (Such
/// as the prefix cache and the dual cache of Fast-dLLM, Wu et al. 2025, arXiv:2505.22618)
///
/// 1. A canvas with `opens` is the first of its block: the model reads it whole, keeps for the slot
///    what it wants to keep until the next one, and gives the logits of this reading. It is the
///    only canvas of its slot in the pass. Repeating the call has the same result.
/// 2. Other canvases are read with what the slot keeps. Their logits are a function of that, of the
///    canvas and of the position; nothing is kept of them.
/// 3. Wanted positions are all in the block [known, block_end).
///
/// The reference is then decoding one token a pass with the same cache: drafts end with the block,
/// and logits made under an older cache decide nothing.
template <class M>
concept BlockCachedModel = MaskedModel<M> && requires {
  requires std::remove_reference_t<M>::caches_blocks;
};

/// Whether a masked model reads canvases on the host, and says so.
template <class M>
inline constexpr bool reads_on_host = requires {
  requires std::remove_reference_t<M>::reads_on_host;
};

/// What a masked model's pass returns, and the type of its logits.
template <MaskedModel M>
using masked_evaluation_of = decltype(std::declval<M&>().evaluate(std::declval<const canvases&>()));
template <MaskedModel M>
using masked_logit =
    std::remove_reference_t<decltype(std::declval<masked_evaluation_of<M>&>().logits(0)[0])>;

}  // namespace hunch::diffusion
