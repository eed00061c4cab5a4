// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>
#include <hunch/vocab/vocab_layout.hpp>

namespace hunch {

/// Whether the logits of a model's passes stay until its next `commit`, and not only until its next
/// pass, by `static constexpr bool keeps_logits = true`.
template <class M>
inline constexpr bool keeps_logits = requires {
  requires std::remove_reference_t<M>::keeps_logits;
};

namespace kernel {

/// Writes what head row `i` asks for, of a whole row of logits in the order of tokens. Where it
/// asks for all of it, and may look at the row itself, it does.
template <class Real, class From>
struct gather_logits {
  const row_view<From>* rows;  ///< [rows of the pass]
  head_rows<Real> heads;
  std::int32_t vocab_size;
  bool lends;

  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    const std::int32_t row = heads.row[i];
    if (row < 0) { return; }
    const From* const from = rows[row].data;
    const shortlist list = heads.lists[i];
    if constexpr (std::is_same_v<Real, From>) {
      if (lends && list.is_everything(vocab_size)) {
        if (team.rank() == 0) { heads.logits[i].data = rows[row].data; }
        return;
      }
    }
    Real* const to = heads.logits[i].data;
    constexpr std::int32_t piece = 32;
    team.for_each((list.size + piece - 1) / piece, [=](std::int64_t p) {
      const auto first = static_cast<std::int32_t>(p) * piece;
      list.for_each_in(first, first + piece < list.size ? first + piece : list.size,
                       [=](std::int32_t at, token t) {
                         to[at] = to_logit<Real>(static_cast<real_of<Real>>(load(from + t)));
                       });
    });
  }
};

}  // namespace kernel

/// A draft model of anything that returns whole rows of logits: any `TargetModel`. What a shortlist
/// asks for is gathered from the row, so that every selector goes with it, in the order of its
/// layout; the work of a shorter head it does not save.
///
/// A row that is asked for as a whole is not copied if it stays for as long as it is read: if
/// children are ranked, or if the model `keeps_logits`.
///
/// Launches one body a level; waits for nothing. Where the host does not read the executor's
/// memory, the model has logits for all rows of a pass, wanted or not, of which there are at most
/// `max_rows`. Lossless with every rule, as any draft model.
/// \tparam Model models `TargetModel`; a reference where the caller keeps the model.
/// \tparam E where the rows of a pass lie, and the decoder runs
template <class Model, Executor E = executor::host>
class full_logits {
  using target_type = std::remove_reference_t<Model>;
  static_assert(TargetModel<target_type>,
                "hunch: the model of hunch::full_logits must model hunch::TargetModel: "
                "vocab_size(), evaluate(rows) and commit(kept_rows) noexcept");
  using from = model_logit<target_type>;

 public:
  static constexpr bool rereads_accepted = hunch::rereads_accepted<Model>;
  static constexpr bool shares_target_cache = hunch::shares_target_cache<Model>;
  static constexpr bool has_one_state = hunch::has_one_state<Model>;

  /// For selectors over the identity.
  explicit full_logits(Model&& model)
      : full_logits(std::forward<Model>(model), vocab_layout::identity(model.vocab_size())) {}
  /// \param layout the selector's.
  full_logits(Model&& model, const vocab_layout& layout, E executor = E(),
              std::int32_t max_rows = 64)
      : model_(std::forward<Model>(model)),
        order_(layout.order()),
        executor_(std::move(executor)),
        found_(static_cast<std::size_t>(max_rows)) {
    rows_.emplace(executor_, found_.size());
  }

  std::int32_t vocab_size() const { return model_.vocab_size(); }
  std::uint64_t head_order() const { return order_; }
  target_type& model() { return model_; }

  auto forward(const rows& asked) {
    auto pass = model_.evaluate(asked);
    if (static_cast<std::size_t>(asked.size) > found_.size()) {
      found_.resize(static_cast<std::size_t>(asked.size));
      rows_.emplace(executor_, found_.size());
    }
    for (std::int32_t i = 0; i < asked.size; ++i) {
      const bool there = !host_reads<E> || (asked.wanted[i] != 0 && pass.status(i) == status::ok);
      found_[static_cast<std::size_t>(i)] = there ? pass.logits(i) : row_view<from>{};
    }
    write_buffer(executor_, rows_->data(), found_.data(), static_cast<std::size_t>(asked.size));
    return pass;
  }
  template <class Pass, class Real>
  void head(Pass&&, const head_rows<Real>& asked) {
    executor_.launch(asked.size, kernel::gather_logits<Real, from>{
                                     .rows = rows_->data(),
                                     .heads = asked,
                                     .vocab_size = model_.vocab_size(),
                                     .lends = keeps_logits<Model> || asked.read_at_once});
  }
  void commit(const kept_rows& kept) noexcept { model_.commit(kept); }

  std::int32_t context_width() const requires requires(const target_type& m) { m.context_width(); }
  { return model_.context_width(); }

 private:
  Model model_;
  std::uint64_t order_;
  E executor_;
  std::vector<row_view<from>> found_;  ///< of the last pass
  std::optional<workspace<E, row_view<from>>> rows_;
};

template <class Model>
full_logits(Model&&) -> full_logits<Model>;
template <class Model>
full_logits(Model&&, const vocab_layout&) -> full_logits<Model>;
template <class Model, Executor E>
full_logits(Model&&, const vocab_layout&, E, std::int32_t = 64) -> full_logits<Model, E>;

}  // namespace hunch
