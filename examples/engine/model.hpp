// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <engine/checkpoint.hpp>
#include <engine/config.hpp>
#include <engine/packed_matrix.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/vocab/vocab_layout.hpp>

/// \file
/// A Llama-family transformer on the CPU: an example of a `hunch::TargetModel`, and of a
/// `hunch::DraftModel`.

namespace engine {

struct model_options {
  /// How weights and activations are multiplied; `preferred_bf16()` or `arithmetic::f32`.
  arithmetic kind = preferred_bf16();
  int threads = 1;
  int max_batch = 1;  ///< slots: sequences that are cached at the same time
  int context = 0;    ///< positions per slot; 0: what the config says, at most 4096
  /// Keep the last hidden state of every position beside the cache, for an EAGLE head that reads
  /// it.
  bool keep_features = false;
  /// Keep instead, for an EAGLE-3 head, what each of these layers begins with; the number of layers
  /// stands for what the last one ends with, before the last norm.
  std::vector<int> feature_layers = {};
};

struct pass_result;

/// What a pass computed. A view: valid until the model's next pass.
class hidden_states {
 public:
  explicit hidden_states(const pass_result& result) : result_{&result} {}

  /// The number of rows of the pass.
  std::int32_t size() const;
  /// `ok`, or `cache_full` where the context is used up.
  hunch::status status(std::int32_t row) const;
  /// [hidden] the state after the last norm of a row that was wanted and is `ok`; the head's input.
  hunch::row_view<const float> hidden(std::int32_t row) const;
  /// [context_width] what a router reads: the same. So it fits every drafter with this head.
  const float* context(std::int32_t row) const { return hidden(row).data; }

 protected:
  const pass_result* result_;
};

class evaluation : public hidden_states {
 public:
  using hidden_states::hidden_states;

  /// [vocab_size] the logits of a row that was wanted and is `ok`, in token order; may be written.
  /// Of a model with a logit range, those of its tokens.
  hunch::row_view<float> logits(std::int32_t row) const;
  /// [hidden] stream j beside such a row, after the last norm; see `speculative_streams`.
  hunch::row_view<const float> stream(std::int32_t row, std::int32_t j) const;
};

class eagle_model;
class early_exit;
class masked_model;
class medusa_heads;
class quantised_target;
class speculative_streams;

/// The transformer with its weights, caches and threads. Movable; one thread may use it at a time.
///
/// The logits of a row are bitwise the same alone and among other rows, in any batch or tree, with
/// any number of threads, and whether its prefix was read in one pass or in many.
///
/// After the first steps of the largest size nothing is allocated, in `commit` never.
class model {
 public:
  /// \throws std::runtime_error naming the tensor of `weights` that does not fit `shape`;
  ///         std::invalid_argument for options out of range.
  model(const config& shape, const checkpoint& weights, const model_options& options = {});
  model(model&&) noexcept;
  model& operator=(model&&) noexcept;
  ~model();

  /// Reads `config.json` and the safetensors files of a Hugging Face directory.
  /// \throws std::runtime_error naming the file, and the key or the tensor, that is at fault.
  static model load(const std::filesystem::path& directory, const model_options& options = {});

  const config& shape() const;
  std::int32_t vocab_size() const;
  /// The hidden size: routers read what the head reads.
  std::int32_t context_width() const;
  int context() const;
  int max_batch() const;
  /// Where its weights come from: the directory, or "memory".
  const std::string& origin() const;
  /// `hunch::head_fingerprint` of the checkpoint's head: of all copies of a model the same,
  /// whatever arithmetic they have and in whatever order the head is stored. Computed when first
  /// asked for.
  std::uint64_t head_fingerprint() const;
  /// What files for this head say of it; the vocabulary as far as its config says.
  hunch::made_for made_for() const;
  /// Cached positions of a slot.
  int length(int slot) const;
  /// The bytes of weights that a decode step of one row reads.
  std::size_t weight_bytes() const;
  /// Rows times layers that were computed so far, by passes of the model and of its views.
  std::uint64_t layer_rows() const;

  /// One pass over the rows: the logits of those that are wanted.
  /// \throws std::out_of_range for slots and tokens outside their range, std::invalid_argument for
  ///         rows that break the rules of `hunch::rows`, or ask for streams that are not there;
  ///         nothing has changed then.
  evaluation evaluate(const hunch::rows& rows);

  /// Passes compute the logits of the tokens [first, end) only: those of one rank of several. What
  /// `head` does is the same.
  /// \throws std::invalid_argument for tokens outside of the vocabulary.
  void set_logit_range(std::int32_t first, std::int32_t end);

  /// The same without the head.
  hidden_states forward(const hunch::rows& rows);

  /// Stores a copy of the head's rows in the order of `layout`, for `head`. Until it is called,
  /// `head` has token order.
  /// \throws std::invalid_argument if the layout is of another vocabulary.
  void set_head_layout(const hunch::vocab_layout& layout);
  std::uint64_t head_order() const;

  /// Writes the logits of the listed rows of a pass over their shortlists.
  /// \throws std::invalid_argument if a row has no hidden state, a view's size is not its list's,
  ///         or a range leaves the head.
  void head(const hidden_states& states, const hunch::head_rows<float>& rows);

  /// Appends the kept rows to the caches and drops those of released slots. Ids that are not
  /// staged, and rows without room, are passed over.
  void commit(const hunch::kept_rows& kept) noexcept;

 private:
  friend class block_cached_model;
  friend class canvas_head;
  friend class eagle_model;
  friend class early_exit;
  friend class masked_model;
  friend class medusa_heads;
  friend class quantised_target;
  friend class speculative_streams;
  struct implementation;
  explicit model(std::unique_ptr<implementation> self);
  std::unique_ptr<implementation> self_;
};

static_assert(hunch::TargetModel<model>);
static_assert(hunch::SpeculativeStreams<evaluation>);
static_assert(hunch::DraftModel<model, float>);
static_assert(hunch::RoutedModel<model>);

/// An EAGLE head of a target, which keeps its features and outlives it: layers that read, with each
/// token, the target's feature of the token before it, or while drafting their own. The embedding
/// and the head are the target's (Li et al. 2024, arXiv:2401.15077); an EAGLE-3 head has a head of
/// its own, and its target keeps features of several layers (Li et al. 2025, arXiv:2503.01840).
class eagle_model : public model {
 public:
  static constexpr bool rereads_accepted = true;

  /// \param weights of `shape`, "model.fc.weight" [hidden, 2 hidden] among them.
  /// \throws std::invalid_argument if the target keeps no features, or its sizes are others: a
  ///         message that names both checkpoints.
  eagle_model(const config& shape, const checkpoint& weights, model& target,
              const model_options& options = {});

  /// Reads the directory of the head, as `eagle_files` does. Its config says which target it is
  /// for: see `check_target`. \throws std::runtime_error also if that head is not the target's.
  static eagle_model load(const std::filesystem::path& directory,
                          const std::filesystem::path& target_directory, model& target,
                          const model_options& options = {});

  /// What its layers begin with, of each row of a pass that is to come: the embedding of its token,
  /// and the feature of the token before it, which the target has read, or the head in an earlier
  /// pass. Valid until the next call. Throws like `forward`.
  hunch::context_rows inputs(const hunch::rows& rows);
  /// How many numbers that is: two hidden sizes.
  std::int32_t input_width() const;

  /// The tokens that its own head drafts, in the order of its rows; nullptr: all, as the target's.
  /// A layout for `set_head_layout` has no others.
  const hunch::vocab_layout* head_tokens() const;
};

static_assert(hunch::DraftModel<eagle_model, float>);
static_assert(hunch::rereads_accepted<eagle_model>);

}  // namespace engine
