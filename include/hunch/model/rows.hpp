// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <hunch/core/config.hpp>
#include <hunch/core/types.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// What a model is asked to compute, as data. Prompt pieces, the tokens that a drafter has not
/// read yet, the levels of a draft tree and plain decoding are all the same thing: rows.

namespace hunch {

/// The parent of a row that directly follows the cached tokens of its sequence.
inline constexpr std::int32_t end_of_cache = -1;

/// The slot of a row that is not there: padding, where the number of rows is fixed.
inline constexpr std::int32_t no_slot = -1;

/// A view of `size` values of type T: one row of logits, contiguous.
template <class T>
struct row_view {
  T* data = nullptr;
  std::int32_t size = 0;

  HUNCH_HOST_DEVICE constexpr T& operator[](std::int64_t i) const { return data[i]; }
};

/// Rows for one forward pass, in structure-of-arrays form; every array has `size` elements, in
/// memory of the decoder's executor, and stays as it is until the pass has run.
///
/// A row is one token of one sequence at one absolute position. It attends to the cached tokens
/// of its sequence and to its chain of staged ancestors, itself included, and to nothing else.
///
/// - Rows of one sequence are adjacent, in ascending staged id; in a step the ids count from 0
///   without gaps. A parent comes before its children, in this call or in an earlier call of the
///   same step.
/// - Staged rows are provisional. Staged id 0 opens a new step of its sequence and discards what
///   was staged for it before; hence an abandoned step needs no rollback.
/// - `commit` moves the kept rows into the cache, in the order given.
///
/// Where the host does not read the executor's memory (see `host_reads`), rows may be padding, all
/// of it behind the others: their slot is `no_slot`, their other values mean nothing, and a model
/// skips them. Kept rows and released slots may be padding there, too, and head rows are where
/// their index is -1.
struct rows {
  std::int32_t size = 0;
  const std::int32_t* slot = nullptr;      ///< of the sequence, in [0, max batch)
  const std::int32_t* id = nullptr;        ///< staged id, unique in the step of the sequence
  const std::int32_t* parent = nullptr;    ///< staged id of the token before it, or `end_of_cache`
  const std::int32_t* position = nullptr;  ///< absolute position in the sequence
  const token* tokens = nullptr;           ///< the token to read
  const std::uint8_t* wanted = nullptr;    ///< 1 where the output row is wanted, else 0
  std::int32_t streams = 0;  ///< requested beside every wanted row, see `SpeculativeStreams`
};

/// What of the staged rows enters the caches, and which sequences end. A released sequence keeps no
/// row.
struct kept_rows {
  std::int32_t size = 0;
  const std::int32_t* slot = nullptr;  ///< [size] rows of one sequence are adjacent
  const std::int32_t* id = nullptr;    ///< [size] staged ids, root first, parent before child
  std::int32_t release_count = 0;
  const std::int32_t* released = nullptr;  ///< [release_count] slots whose cache is dropped
};

/// Which hidden rows of a draft model's forward pass go through its head, over which rows of the
/// head, and where the logits go.
template <class Real>
struct head_rows {
  std::int32_t size = 0;
  const std::int32_t* row = nullptr;  ///< [size] index of the row in the forward pass
  const shortlist* lists = nullptr;   ///< [size]
  row_view<Real>* logits = nullptr;   ///< [size] out; logits[i].size == lists[i].size
};

/// What draft heads are evaluated at: for each sequence the root, and what the target knew before
/// it drew it.
struct head_inputs {
  std::int32_t size = 0;
  const float* const* hidden = nullptr;  ///< [size] of [states, hidden_size] the target's hidden
                                         ///< state, of which it made the law of the root, or the
                                         ///< streams beside that row; valid until `observe`.
                                         ///< nullptr: padding, see `rows`
  const token* tokens = nullptr;         ///< [size] the root: the last emitted token
  std::int32_t states = 1;               ///< of each input: 1, or as many as streams were requested
};

/// What a model knows of the rows of a pass, for routers: row i has its numbers at data + i *
/// stride.
struct context_rows {
  const float* data = nullptr;
  std::int32_t stride = 0;  ///< >= context_width

  context_rows contexts() const { return *this; }
};

}  // namespace hunch
