// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <engine/canvas_head_config.hpp>
#include <engine/checkpoint.hpp>
#include <engine/device/canvases.hpp>
#include <engine/device/masked_model.hpp>
#include <engine/device/pointwise.hpp>
#include <engine/device/staging.hpp>
#include <engine/device/transformer.hpp>
#include <engine/device/weights.hpp>
#include <engine/into.hpp>
#include <hunch/core/types.hpp>
#include <hunch/diffusion/canvas/masked_model.hpp>
#include <hunch/diffusion/drafter/model_drafts.hpp>
#include <hunch/executor/clear_slots.hpp>
#include <hunch/executor/executor.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/model/rows.hpp>
#include <hunch/team/team.hpp>

/// \file
/// `engine::canvas_head` on an executor.

namespace engine {
namespace device {

/// A row of the target that was observed.
struct observed_row {
  hunch::token token = 0;
  std::int32_t length = 0;  ///< positions attended to
};

/// What was observed of a slot: rows of positions that follow each other.
struct canvas_window {
  std::int32_t first = 0;  ///< position; those before it are in the target's cache
  std::int32_t count = 0;
};

/// All windows, as bodies see them. A trivially copyable view.
struct window_table {
  canvas_window* windows = nullptr;  ///< [max_batch]
  observed_row* rows = nullptr;      ///< [max_batch, max_length]
  float* residuals = nullptr;        ///< [max_batch, max_length, size]
  /// [max_batch, width] the state of the first wanted position, if it comes from the row before the
  /// window, which stays as it is.
  float* states = nullptr;
  std::int32_t* asked = nullptr;  ///< [max_canvases] rows of each canvas of a pass
  std::int32_t max_batch = 0;
  std::int32_t max_length = 0;
  std::int32_t size = 0;
  std::int32_t width = 0;

  HUNCH_HOST_DEVICE bool has_slot(std::int32_t slot) const { return slot >= 0 && slot < max_batch; }
  HUNCH_HOST_DEVICE observed_row& row(std::int32_t slot, std::int32_t j) const {
    return rows[static_cast<std::int64_t>(slot) * max_length + j];
  }
  HUNCH_HOST_DEVICE float* residual(std::int32_t slot, std::int32_t j) const {
    return residuals + (static_cast<std::int64_t>(slot) * max_length + j) * size;
  }
};

/// Keeps of kept canvas `index` what the head begins with.
struct observe_canvas {
  hunch::diffusion::decided_canvases decided;
  canvas_table target;
  const planned_row* rows;  ///< of the target's last pass
  const float* residuals;   ///< [rows, size] likewise
  const float* states;      ///< [wanted, width] likewise
  window_table to;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const std::int32_t canvas = decided.kept[index];
    if (canvas < 0) { return; }
    const std::int32_t slot = decided.pass.slot[canvas];
    if (!target.has_slot(slot) || !to.has_slot(slot)) { return; }
    const canvas_slot of = target.slots[slot];
    const read_canvas& read = target.canvases[canvas];
    const std::int32_t first = of.to;
    const bool seen = of.staged && read.asked && read.end > first;
    const std::int32_t count = seen ? read.end - first : 0;
    if (team.rank() == 0) { to.windows[slot] = {.first = first, .count = count}; }
    const observe_canvas self = *this;
    team.for_each(count, [=](std::int64_t j) {
      const auto at = static_cast<std::int32_t>(j);
      const planned_row row = self.rows[of.row + self.target.row_of(canvas, first + at)];
      self.to.row(slot, at) = {.token = row.token, .length = row.cached + row.depth};
    });
    for (std::int32_t j = 0; j < count; ++j) {
      const std::int64_t row = of.row + target.row_of(canvas, first + j);
      const float* const from = residuals + row * to.size;
      float* const out = to.residual(slot, j);
      team.for_each(to.size, [=](std::int64_t i) { out[i] = from[i]; });
    }
    const auto wanted = decided.pass.wanted_of(canvas);
    if (wanted.size == 0 || wanted[0] - target.shift >= first) { return; }
    const std::int64_t output = decided.pass.first_wanted[canvas];
    const float* const from = states + output * to.width;
    float* const out = to.states + static_cast<std::int64_t>(slot) * to.width;
    team.for_each(to.width, [=](std::int64_t i) { out[i] = from[i]; });
  }
};

/// Counts the rows of canvas `index`: those of its slot's window that the wanted ones see. There
/// are none where nothing was observed, or not of so long a canvas.
struct count_windows {
  hunch::diffusion::canvases given;
  window_table of;
  std::int32_t shift;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (team.rank() == 0) { of.asked[index] = count(index); }
  }

 private:
  HUNCH_HOST_DEVICE std::int32_t count(std::int32_t index) const {
    const std::int32_t slot = given.slot[index];
    const auto wanted = given.wanted_of(index);
    if (!of.has_slot(slot) || wanted.size < 1) { return 0; }
    const canvas_window w = of.windows[slot];
    const std::int32_t last = wanted[wanted.size - 1] - shift - w.first;
    if (last < 0 || last >= w.count || w.first + w.count > given.canvas(index).size) { return 0; }
    return of.row(slot, last).length - w.first;
  }
};

/// Stages the rows of canvas `index`; those whose token is another than was observed are `wanted`.
/// What has no window or no room has no law.
struct stage_windows {
  hunch::diffusion::canvases given;
  window_table of;
  std::int32_t shift;
  std::int32_t max_staged;
  canvas_pass pass;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (index + 1 == given.size) {
      pass.pad(team, rows_before(team, given.size), given.first_wanted[given.size]);
    }
    const std::int32_t slot = given.slot[index];
    const std::int32_t count = of.asked[index];
    const std::int32_t row = rows_before(team, index);
    const bool room = row + count <= pass.max_rows && count <= max_staged;
    const canvas_window w = of.has_slot(slot) ? of.windows[slot] : canvas_window{};
    const hunch::token* const tokens = given.canvas(index).data;
    const stage_windows self = *this;
    std::int32_t* const path = pass.plan.path(index);
    team.for_each(count, [=](std::int64_t k) {
      const auto j = static_cast<std::int32_t>(k);
      const std::int32_t at = row + j;
      if (!room) {
        if (at < self.pass.max_rows) { self.pass.leave_out(at); }
        return;
      }
      const observed_row before = self.of.row(slot, j);
      const hunch::token now = tokens[w.first + j];
      path[k] = j;
      self.pass.plan.rows[at] = {.slot = slot,
                                 .id = j,
                                 .path = index,
                                 .position = w.first + j,
                                 .cached = w.first,
                                 .depth = before.length - w.first,
                                 .token = now};
      self.pass.plan.computed[at] = 1;
      self.pass.plan.wanted[at] = now == before.token ? 0 : 1;
    });
    const auto wanted = given.wanted_of(index);
    canvas_output* const out = pass.outputs + given.first_wanted[index];
    team.for_each(wanted.size, [=](std::int64_t i) {
      const std::int32_t at = wanted[static_cast<std::int32_t>(i)] - self.shift - w.first;
      if (w.count == 0 || !room || at >= count) {
        out[i] = {canvas_output::no_law, slot};
      } else if (at < 0) {
        out[i] = {canvas_output::cached, slot};
      } else {
        out[i] = {row + at, slot};
      }
    });
  }

 private:
  template <hunch::Team T>
  HUNCH_HOST_DEVICE std::int32_t rows_before(T& team, std::int32_t n) const {
    const std::int32_t* const all = of.asked;
    return team.reduce(
        n, std::int32_t(0), [=](std::int64_t i) { return all[i]; },
        [](std::int32_t a, std::int32_t b) { return a + b; });
  }
};

/// What row `index` begins with where its token has changed: its embedding after a norm, and the
/// residual that was observed.
template <class Input>
struct join_windows {
  pass_plan plan;
  window_table of;
  const float* embedded;  ///< [rows, size]
  const float* weight;    ///< [size]
  float epsilon;
  Input* out;  ///< [rows, width]
  std::int32_t width;

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    if (plan.wanted[index] == 0) { return; }
    const planned_row row = plan.rows[index];
    Input* const to = out + static_cast<std::int64_t>(index) * width;
    normalise(team, embedded + static_cast<std::int64_t>(index) * of.size, of.size, weight, epsilon,
              to, static_cast<float*>(nullptr));
    const float* const observed = of.residual(row.slot, row.id);
    Input* const second = to + of.size;
    team.for_each(of.size, [=](std::int64_t i) { put(second[i], observed[i]); });
  }
};

/// What row `index` begins with where its token is what it was.
struct take_windows {
  pass_plan plan;
  window_table of;
  float* residual;  ///< [rows, size]

  template <hunch::Team T>
  HUNCH_HOST_DEVICE void operator()(T& team, std::int32_t index) const {
    const planned_row row = plan.rows[index];
    if (row.slot == hunch::no_slot || plan.wanted[index] != 0) { return; }
    const float* const from = of.residual(row.slot, row.id);
    float* const to = residual + static_cast<std::int64_t>(index) * of.size;
    team.for_each(of.size, [=](std::int64_t i) { to[i] = from[i]; });
  }
};

}  // namespace device

/// `engine::canvas_head` on an executor, the target's: what was observed lies there, and so do the
/// cells of the target in which it works. Those of staged rows are the target's for the length of a
/// pass only, so that the head leaves alone what is cached. It has a copy of the target's embedding
/// and head. The target outlives it, and keeps its residuals for it as long as it lives.
///
/// A canvas of a slot of which nothing was observed has logits that are no numbers.
template <hunch::ResidentExecutor Executor, class Multiply = device::team_multiply<Executor>>
class device_canvas_head {
  using target_type = device_masked_model<Executor, Multiply>;
  using masked_type = typename target_type::transformer_type;
  using transformer_type = device::canvas_transformer<Executor, Multiply>;
  using input = typename transformer_type::input;
  template <class T>
  using resident = typename transformer_type::template resident<T>;

 public:
  static constexpr bool reads_target = true;
  using evaluation = device::canvas_states;

  /// \param weights as `canvas_head` reads them.
  /// \param options of its passes; slots and positions are as many as the target's.
  /// \throws std::runtime_error naming the tensor that does not fit, std::invalid_argument like
  ///         `canvas_head`, or for options out of range.
  device_canvas_head(const canvas_head_config& shape, const checkpoint& weights,
                     target_type& target, const device_canvas_options& options = {})
      : self_(made(shape, weights, target.parts(), options)),
        target_(reading(shape, weights, target.parts())),
        embedding_norm_(device::uploaded(
            self_->executor, weights.vector("model.embedding_norm.weight", shape.model.hidden))),
        windows_(self_->executor, batch()),
        rows_(self_->executor, batch() * length()),
        residuals_(self_->executor, batch() * length() * sized(shape.model.hidden)),
        asked_(self_->executor, sized(options.max_canvases)) {
    self_->executor.synchronize();
  }

  /// Reads the directory of the head; embedding and head are those of `target_directory`.
  static device_canvas_head load(const std::filesystem::path& directory,
                                 const std::filesystem::path& target_directory, target_type& target,
                                 const device_canvas_options& options = {}) {
    const auto config_file = directory / "config.json";
    const canvas_head_config shape = read_canvas_head_config(config_file);
    device_canvas_head out(shape, head_of_target(directory, target_directory, shape.model.names),
                           target, options);
    target.parts().check_head(config_file, *out.self_);
    return out;
  }

  std::int32_t vocab_size() const { return self_->shape.vocab_size; }
  hunch::token mask_token() const { return target_->masked.mask_token; }
  std::int32_t max_positions() const { return self_->options.max_length; }

  /// Keeps the residuals of each slot's canvas that was decided, and nothing else of that slot. An
  /// error of the executor is thrown by the next pass.
  void observe(const hunch::diffusion::decided_canvases& decided,
               const evaluation& of_target) noexcept {
    try {
      self_->executor.launch(decided.size,
                             device::observe_canvas{.decided = decided,
                                                    .target = target_->table(),
                                                    .rows = target_->space.plan().rows,
                                                    .residuals = target_->kept_residuals(),
                                                    .states = of_target.data(),
                                                    .to = table()});
    } catch (...) { failure_ = std::current_exception(); }
  }

  /// \throws std::invalid_argument for more canvases or wanted positions than the options have room
  ///         for, and what an earlier `observe` left.
  evaluation evaluate(const hunch::diffusion::canvases& given) {
    if (failure_) { std::rethrow_exception(std::exchange(failure_, nullptr)); }
    transformer_type& t = *self_;
    const device::canvas_pass pass = t.pass_of(given);
    const device::window_table all = table();
    const std::int32_t shift = target_->masked.shifted ? 1 : 0;
    t.executor.launch(given.size, device::count_windows{given, all, shift});
    t.executor.launch(given.size, device::stage_windows{.given = given,
                                                        .of = all,
                                                        .shift = shift,
                                                        .max_staged = target_->options.max_staged,
                                                        .pass = pass});
    t.embed(pass.max_rows);
    t.executor.launch(pass.max_rows,
                      device::join_windows<input>{.plan = pass.plan,
                                                  .of = all,
                                                  .embedded = t.space.residual.data(),
                                                  .weight = embedding_norm_.data(),
                                                  .epsilon = t.shape.norm_epsilon,
                                                  .out = t.joined.data(),
                                                  .width = t.joint_width()});
    if (pass.max_rows > 0) {
      t.multiply(t.weights.joint(), t.joined.data(), pass.max_rows, t.space.residual.data(),
                 into::overwrite, pass.plan.wanted);
    }
    t.executor.launch(pass.max_rows, device::take_windows{pass.plan, all, t.space.residual.data()});
    t.run_layers(0, t.shape.layers, pass.max_rows);
    return t.finish_pass(pass);
  }

  /// Drops what was observed of a slot.
  void release(std::int32_t slot) noexcept {
    if (slot < 0 || slot >= self_->options.max_batch) { return; }
    hunch::attempt([&] { self_->executor.launch(1, hunch::clear_slots{windows_.data() + slot}); });
  }

 private:
  static std::size_t sized(std::int32_t n) { return static_cast<std::size_t>(n); }
  std::size_t batch() const { return sized(self_->options.max_batch); }
  std::size_t length() const { return sized(self_->options.max_length); }

  template <class Target>
  static std::unique_ptr<transformer_type> made(const canvas_head_config& shape,
                                                const checkpoint& weights, const Target& target,
                                                device_canvas_options options) {
    check_canvas_head(shape, weights, target, target.masked);
    options.max_batch = target.options.max_batch;
    options.max_length = target.options.max_length;
    return std::make_unique<transformer_type>(
        "engine::device_canvas_head", shape.model, weights, options, target.executor,
        device::lent_cells{target.space.cache(),
                           {shape.cached_layers.begin(), shape.cached_layers.end()}});
  }

  /// A target that keeps its residuals for a head, until this ends.
  struct kept_for_head {
    void operator()(masked_type* target) const noexcept { target->forget_residuals(); }
  };
  using kept_target = std::unique_ptr<masked_type, kept_for_head>;

  static kept_target reading(const canvas_head_config& shape, const checkpoint& weights,
                             masked_type& target) {
    const std::int32_t kept = target.kept_before;
    if (kept >= 0 && kept != shape.target_layer) {
      target.refuse_head(weights.origin(),
                         "reads the residuals before layer " + std::to_string(shape.target_layer),
                         "keeps those before layer " + std::to_string(kept) + " for another head");
    }
    target.keep_residuals(shape.target_layer);
    return kept_target(&target);
  }

  device::window_table table() const {
    return {.windows = windows_.data(),
            .rows = rows_.data(),
            .residuals = residuals_.data(),
            .states = self_->kept_states(),
            .asked = asked_.data(),
            .max_batch = self_->options.max_batch,
            .max_length = self_->options.max_length,
            .size = self_->shape.hidden,
            .width = self_->stride()};
  }

  std::unique_ptr<transformer_type> self_;
  kept_target target_;
  hunch::workspace<Executor, float> embedding_norm_;
  resident<device::canvas_window> windows_;
  resident<device::observed_row> rows_;
  resident<float> residuals_;
  resident<std::int32_t> asked_;
  std::exception_ptr failure_;
};

template <class Executor, class Multiply>
device_canvas_head(const canvas_head_config&, const checkpoint&,
                   device_masked_model<Executor, Multiply>&, const device_canvas_options&)
    -> device_canvas_head<Executor, Multiply>;

static_assert(hunch::diffusion::ObservingModel<device_canvas_head<hunch::executor::host>,
                                               device::canvas_states>);

}  // namespace engine
