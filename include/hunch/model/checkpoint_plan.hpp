// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/core/types.hpp>
#include <hunch/model/rows.hpp>

namespace hunch {

/// What is done to the state of a sequence, in the order given.
struct state_edit {
  enum class kind : std::uint8_t {
    save,     ///< the state becomes the checkpoint of its slot
    restore,  ///< the checkpoint becomes the state, and stays
    clear     ///< neither has read anything
  };

  std::int32_t slot = 0;
  kind what = kind::save;

  friend bool operator==(const state_edit&, const state_edit&) = default;
};

/// Staged and kept rows in the words of an engine that has one state for each sequence, into which
/// every token that is read goes and out of which none can be taken: a recurrent model, or one that
/// is so in some of its layers. It keeps one more state for each slot, the checkpoint. After a
/// draft that was refused in part it goes back there, and what was kept since is read again, in
/// front of the rows of each pass.
///
/// Around a model's passes:
///
///     plan.stage(rows);                    // in evaluate or forward
///     if (!plan.late().empty()) {          // too much to be read again beside a draft
///       ... plan.edits(), then a pass over plan.late(), of which no logits are wanted ...
///       plan.caught_up();
///     }
///     for (const state_edit& e : plan.edits()) { ... }
///     plan.edited();
///     // a pass over plan.pass(); row i of the model's pass is its row plan.place(i)
///
///     plan.keep(kept);                     // in commit
///
/// A draft that is accepted as a whole costs one save. One that is not costs a restore, and that
/// all tokens since the last save are read again until a draft is accepted as a whole; where they
/// are more than `max_reread`, a pass of their own, and a save.
///
/// For chains only: a model that is adapted so says `static constexpr bool has_one_state = true`,
/// and trees do not compile with it. A pass that throws is repeated by staging it anew, from staged
/// id 0 on. Host only. Nothing is allocated after construction, but by `stage` where edits of such
/// passes wait.
class checkpoint_plan {
 public:
  /// A row of an engine's pass.
  struct row {
    std::int32_t slot = 0;
    std::int32_t position = 0;
    token t = no_token;
    bool wanted = false;
  };

  /// \param max_rows of a pass of the model. \param max_staged rows of one sequence between two
  /// commits: a draft with its root and a chunk of a prompt. \param max_reread tokens of a sequence
  /// that are read again beside a draft.
  checkpoint_plan(std::int32_t max_batch, std::int32_t max_rows, std::int32_t max_staged,
                  std::int32_t max_reread)
      : max_rows_(static_cast<std::size_t>(max_rows)),
        max_staged_(static_cast<std::size_t>(max_staged)),
        max_reread_(static_cast<std::size_t>(max_reread)),
        slots_(static_cast<std::size_t>(max_batch)) {
    for (sequence& s : slots_) {
      s.tail.reserve(max_reread_ + max_staged_);
      s.staged.reserve(max_staged_);
    }
    place_.reserve(max_rows_);
    pass_.reserve(static_cast<std::size_t>(max_pass()));
    late_.reserve(static_cast<std::size_t>(max_late()));
    edits_.reserve(4 * slots_.size());
  }
  /// Not copied: a copy would have no room.
  checkpoint_plan(checkpoint_plan&&) = default;
  checkpoint_plan& operator=(checkpoint_plan&&) = default;

  /// Rows of an engine's pass at most.
  std::int32_t max_pass() const {
    return static_cast<std::int32_t>(max_rows_ + slots_.size() * max_reread_);
  }
  std::int32_t max_late() const {
    return static_cast<std::int32_t>(slots_.size() * (max_reread_ + max_staged_));
  }
  /// Tokens of a slot that are committed.
  std::int32_t length(std::int32_t slot) const { return at(slot).length; }

  /// Finds what is to be read. \throws std::length_error if it is more than there is room for.
  /// \throws std::invalid_argument if the rows of a sequence are no chain.
  void stage(const rows& asked) {
    pass_.clear();
    late_.clear();
    place_.clear();
    if (static_cast<std::size_t>(asked.size) > max_rows_) {
      throw std::length_error(message(
          {"hunch::checkpoint_plan: a pass of ", asked.size, " rows, and room for ", max_rows_}));
    }
    // `keep` and `caught_up` allocate nothing.
    edits_.reserve(edits_.size() + 3 * slots_.size());
    for (std::int32_t i = 0; i < asked.size; ++i) {
      const std::int32_t slot = asked.slot[i];
      sequence& s = at(slot);
      if (asked.id[i] == 0) { begin_step(slot); }
      if (const auto id = static_cast<std::size_t>(asked.id[i]); id < s.staged.size()) {
        s.staged.resize(id);  // staged once more: what an engine had no room for
      }
      if (static_cast<std::size_t>(asked.id[i]) != s.staged.size() ||
          asked.parent[i] != asked.id[i] - 1) {
        throw std::invalid_argument(
            message({"hunch::checkpoint_plan: staged row ", asked.id[i], " of slot ", slot,
                     " does not follow the row before it: a state holds no "
                     "branches, use tree::chain"}));
      }
      if (s.staged.size() == max_staged_) {
        throw std::length_error(message(
            {"hunch::checkpoint_plan: room for ", max_staged_, " staged rows of a sequence"}));
      }
      s.staged.push_back(asked.tokens[i]);
      place_.push_back(static_cast<std::int32_t>(pass_.size()));
      pass_.push_back({slot, asked.position[i], asked.tokens[i], asked.wanted[i] != 0});
    }
  }

  /// What an engine reads first, in a pass of its own.
  std::span<const row> late() const { return late_; }
  /// It has done so, after all edits.
  void caught_up() {
    edits_.clear();
    for (std::size_t i = 0; i < late_.size(); ++i) {
      if (i > 0 && late_[i].slot == late_[i - 1].slot) { continue; }
      save(late_[i].slot);
    }
    late_.clear();
  }

  /// What is to be done to states.
  std::span<const state_edit> edits() const { return edits_; }
  /// It has been done.
  void edited() { edits_.clear(); }

  /// The rows that an engine reads in its pass.
  std::span<const row> pass() const { return pass_; }
  /// Which of them is row i of the pass that was staged.
  std::int32_t place(std::int32_t i) const { return place_[static_cast<std::size_t>(i)]; }

  /// Makes the kept tokens a part of the text.
  void keep(const kept_rows& kept) noexcept {
    for (std::int32_t i = 0; i < kept.size;) {
      sequence& s = at(kept.slot[i]);
      std::size_t count = 0;
      for (const std::int32_t slot = kept.slot[i]; i < kept.size && kept.slot[i] == slot; ++i) {
        s.tail.push_back(s.staged[count++]);
      }
      s.length += static_cast<std::int32_t>(count);
      s.ahead = count < s.staged.size();
      s.staged.clear();
    }
    for (std::int32_t i = 0; i < kept.release_count; ++i) {
      sequence& s = at(kept.released[i]);
      // A slot that nothing was read of has nothing to clear, however often it is released.
      if (s.length > 0 || s.ahead || !s.staged.empty()) {
        edits_.push_back({kept.released[i], state_edit::kind::clear});
      }
      s.length = 0;
      s.ahead = false;
      s.tail.clear();
      s.staged.clear();
    }
  }

 private:
  struct sequence {
    std::int32_t length = 0;    ///< of the text
    bool ahead = false;         ///< whether the state has read what is not of the text
    std::vector<token> tail;    ///< of the text, behind the checkpoint
    std::vector<token> staged;  ///< read, or about to be, behind the text
  };

  sequence& at(std::int32_t slot) { return slots_[static_cast<std::size_t>(slot)]; }
  const sequence& at(std::int32_t slot) const { return slots_[static_cast<std::size_t>(slot)]; }

  void save(std::int32_t slot) {
    edits_.push_back({slot, state_edit::kind::save});
    at(slot).tail.clear();
  }

  /// A new step: what was staged is void.
  void begin_step(std::int32_t slot) {
    sequence& s = at(slot);
    s.ahead = s.ahead || !s.staged.empty();
    s.staged.clear();
    if (!s.ahead) {
      if (!s.tail.empty()) { save(slot); }
      return;
    }
    // Of a pass that failed there may be one already.
    std::erase(edits_, state_edit{slot, state_edit::kind::restore});
    edits_.push_back({slot, state_edit::kind::restore});
    std::vector<row>& again = s.tail.size() > max_reread_ ? late_ : pass_;
    std::int32_t position = s.length - static_cast<std::int32_t>(s.tail.size());
    for (const token t : s.tail) { again.push_back({slot, position++, t, false}); }
  }

  std::size_t max_rows_;
  std::size_t max_staged_;
  std::size_t max_reread_;
  std::vector<sequence> slots_;      ///< [max_batch]
  std::vector<std::int32_t> place_;  ///< [rows that were staged last]
  std::vector<row> pass_;
  std::vector<row> late_;
  std::vector<state_edit> edits_;
};

}  // namespace hunch
