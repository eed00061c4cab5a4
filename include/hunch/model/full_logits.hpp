// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/config.hpp>
#include <hunch/core/logit.hpp>
#include <hunch/core/message.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/concepts.hpp>
#include <hunch/model/found_rows.hpp>
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
/// asks for all of it, and in the type that it has, it looks at the row itself.
template <class Real, class From>
struct gather_logits {
  row_places<From> rows;  ///< of the pass
  head_rows<Real> heads;
  std::int32_t vocab_size;

  static constexpr bool reads_rows = true;

  template <Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t i) const {
    const std::int32_t row = heads.row[i];
    if (row < 0) { return; }
    From* const from = rows[row].data;
    const shortlist list = heads.lists[i];
    const bool whole = list.is_everything(vocab_size);
    if constexpr (std::is_same_v<Real, From>) {
      if (whole) {
        if (team.rank() == 0) { heads.logits[i].data = from; }
        return;
      }
    }
    Real* const to = heads.logits[i].data;
    if (whole) {  // one stream, and no look at the list in between
      team.for_each(vocab_size, [=](std::int64_t t) {
        to[t] = to_logit<Real>(static_cast<real_of<Real>>(load(from + t)));
      });
      return;
    }
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
/// A row that is asked for as a whole is lent: if children are drawn from it, and the model does
/// not say that it `keeps_logits`, the drafter copies it when they are.
///
/// Launches one body a level; waits for nothing. Lossless with every rule, as any draft model.
///
/// Where the host does not read the memory of a step, the model has logits for all rows of a pass,
/// wanted or not, which are equally long and equally far apart, and a pass has at most `max_rows`.
/// \tparam Model models `TargetModel`; a reference where the caller keeps the model.
/// \tparam E where the rows of a pass lie, and the decoder runs
template <class Model, Executor E = executor::host>
class full_logits {
  using target_type = std::remove_reference_t<Model>;
  static_assert(TargetModel<target_type>,
                "hunch: the model of hunch::full_logits must model hunch::TargetModel: "
                "vocab_size(), evaluate(rows) and commit(kept_rows) noexcept");
  using from = model_logit<target_type>;
  static constexpr bool host_reads_rows = host_reads<step_memory<E>>;

 public:
  static constexpr bool lends_for_a_pass = !keeps_logits<Model>;
  static constexpr bool rereads_accepted = hunch::rereads_accepted<Model>;
  static constexpr bool shares_target_cache = hunch::shares_target_cache<Model>;
  static constexpr bool has_one_state = hunch::has_one_state<Model>;

  /// For selectors over the identity.
  explicit full_logits(Model&& model)
      : full_logits(std::forward<Model>(model), vocab_layout::identity(model.vocab_size())) {}
  /// \param layout the selector's. \param max_rows of a pass, where the host does not read the
  /// memory
  ///        of a step; else they may become more.
  full_logits(Model&& model, const vocab_layout& layout, E executor = E(),
              std::int32_t max_rows = 64)
      : model_(std::forward<Model>(model)),
        order_(layout.order()),
        executor_(std::move(executor)),
        found_(static_cast<std::size_t>(max_rows)) {
    if constexpr (host_reads_rows) { table_.emplace(executor_, found_.size()); }
  }

  std::int32_t vocab_size() const { return model_.vocab_size(); }
  std::uint64_t head_order() const { return order_; }
  target_type& model() { return model_; }

  /// \throws what the model does; where the host does not read the memory of a step,
  ///         std::length_error for more than `max_rows` rows, and std::logic_error for logits that
  ///         are not equally far apart.
  auto forward(const rows& asked) {
    // Never less than 0, which g++ 12 does not see and warns of.
    const auto size = static_cast<std::size_t>(std::max(asked.size, std::int32_t{0}));
    if (size > found_.size()) { grow(size); }
    auto pass = model_.evaluate(asked);
    for (std::int32_t i = 0; i < asked.size; ++i) {
      const bool there = !host_reads_rows || (asked.wanted[i] != 0 && pass.status(i) == status::ok);
      found_[static_cast<std::size_t>(i)] = there ? pass.logits(i) : row_view<from>{};
    }
    if constexpr (host_reads_rows) {
      write_buffer(executor_, table_->data(), found_.data(), size);
      rows_ = {.table = table_->data()};
    } else {
      rows_ = equally_apart(found_.data(), asked.size);
      if (asked.size > 0 && !rows_.exist()) {
        throw std::logic_error("hunch::full_logits: logits that are not equally far apart");
      }
    }
    return pass;
  }
  template <class Pass, class Real>
  void head(Pass&&, const head_rows<Real>& asked) {
    executor_.launch(asked.size,
                     kernel::gather_logits<Real, from>{
                         .rows = rows_, .heads = asked, .vocab_size = model_.vocab_size()});
  }
  void commit(const kept_rows& kept) noexcept { model_.commit(kept); }

  std::int32_t context_width() const requires requires(const target_type& m) { m.context_width(); }
  { return model_.context_width(); }

 private:
  void grow(std::size_t rows) {
    if constexpr (host_reads_rows) {
      found_.resize(rows);
      table_.emplace(executor_, rows);
    } else {
      throw std::length_error(message(
          {"hunch::full_logits: a pass of ", rows, " rows, and max_rows is ", found_.size()}));
    }
  }

  Model model_;
  std::uint64_t order_;
  E executor_;
  std::vector<row_view<from>> found_;                  ///< of the last pass
  std::optional<workspace<E, row_view<from>>> table_;  ///< of them, where the host reads
  row_places<from> rows_;
};

template <class Model>
full_logits(Model&&) -> full_logits<Model>;
template <class Model>
full_logits(Model&&, const vocab_layout&) -> full_logits<Model>;
template <class Model, Executor E>
full_logits(Model&&, const vocab_layout&, E, std::int32_t = 64) -> full_logits<Model, E>;

}  // namespace hunch
