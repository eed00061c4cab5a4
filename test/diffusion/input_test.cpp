// SPDX-License-Identifier: Apache-2.0

// What bad input gets: an error that names it, for that request alone, and an unchanged state.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <hunch/sampler/bias.hpp>
#include "fill.hpp"

namespace hunch::test::input_test {
namespace {

constexpr std::int32_t vocab = 4;
constexpr token mask = 2;
constexpr double never = -std::numeric_limits<double>::infinity();

canvas_world world_with(row_editor edit) { return {{vocab, 51, flavour::smooth}, mask, edit, 4}; }

canvas_task task_of(std::uint64_t seed) {
  canvas_task task{std::vector<token>(7, mask), 1, 3};
  task.canvas[0] = static_cast<token>(seed % 2);
  task.seed = seed;
  task.temperature = seed % 2 == 0 ? 0.0 : 1.0;
  return task;
}

/// Some rows of a model are bad: what one token a pass meets ends the request there, with the
/// unmaskings before it, and what it does not meet is no error.
void check_rows(row_editor edit, status expected) {
  const canvas_world world = world_with(edit);
  toy_masked<double> model{world};
  auto d = canvas_decoder<3>(model, 2);
  std::int32_t failed = 0;
  std::int32_t unharmed = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const request_id first = add(d, task_of(seed));
    const request_id second = add(d, task_of(seed + 1000));
    auto found = finish(d);
    for (const auto& [id, of] : {std::pair{first, seed}, std::pair{second, seed + 1000}}) {
      const textbook_result right = fill_stepwise(world, task_of(of));
      CHECK(agrees(found[id], right));
      if (right.failed != status::ok) {
        CHECK(right.failed == expected);
        CHECK(found[id].finish == finish_reason::error);
        ++failed;
      } else {
        CHECK(found[id].finish == finish_reason::length);
        ++unharmed;
      }
    }
  }
  CHECK(failed > 5);
  CHECK(unharmed > 5);
}

bool is_bad(std::uint64_t row) { return mix(row) % 16 == 0; }

TEST_CASE("rows without a law end their request where one token a pass would meet them") {
  check_rows(
      [](std::uint64_t h, std::int32_t, double* row) {
        if (is_bad(h)) { row[3] = std::nan(""); }
      },
      status::invalid_logits);
  check_rows(
      [](std::uint64_t h, std::int32_t, double* row) {
        if (is_bad(h)) { row[0] = -never; }
      },
      status::invalid_logits);
  check_rows(
      [](std::uint64_t h, std::int32_t n, double* row) {
        if (is_bad(h)) { std::fill_n(row, n, never); }
      },
      status::invalid_logits);
  // A logit that nobody may choose by is a logit.
  check_rows(
      [](std::uint64_t h, std::int32_t, double* row) {
        if (is_bad(h)) { row[mask] = std::nan(""); }
      },
      status::invalid_logits);
  check_rows(
      [](std::uint64_t h, std::int32_t, double* row) {
        if (is_bad(h)) { row[mask] = -never; }
      },
      status::invalid_logits);
}

TEST_CASE("nothing but the mask token is no support") {
  check_rows(
      [](std::uint64_t h, std::int32_t n, double* row) {
        if (is_bad(h)) {
          std::fill_n(row, n, never);
          row[mask] = 3.0;
        }
      },
      status::empty_support);
}

TEST_CASE("one finite logit is a law, and the mask token is never unmasked") {
  const canvas_world world = world_with([](std::uint64_t, std::int32_t, double* row) {
    row[0] = row[1] = never;
    row[mask] = 50.0;
  });
  toy_masked<double> model{world};
  auto d = canvas_decoder<3>(model);
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    CHECK(fill(d, task_of(seed)).answer == std::vector<token>(6, 3));
  }
}

TEST_CASE("a mask token outside of the vocabulary is none of the logits") {
  canvas_world world = world_with(nullptr);
  world.mask = vocab + 3;
  toy_masked<double> model{world};
  auto d = canvas_decoder<3>(model);
  const std::vector<token> prompt{1};
  const auto tokens = d.generate(prompt, {.max_new_tokens = 40, .temperature = 5.0f}).tokens;
  for (token t = 0; t < vocab; ++t) { CHECK(std::ranges::count(tokens, t) > 0); }
}

TEST_CASE("biases that exclude everything") {
  toy_masked<double> model{world_with(nullptr)};
  using biased = sampler::pipeline<sampler::bias, sampler::temperature>;
  auto d = canvas_decoder<3>(model, 1, diffusion::order::confidence{},
                             diffusion::verifier::stepwise_exact{}, biased{});
  generation_options options{.max_new_tokens = 5, .temperature = 1.0f};
  const auto off = -std::numeric_limits<float>::infinity();
  const std::vector<token> prompt{1};
  options.bias = {{0, off}, {3, off}};
  CHECK(d.generate(prompt, options).tokens == std::vector<token>(5, 1));
  options.bias.push_back({1, off});
  const finished_text none = d.generate(prompt, options);
  CHECK(none.finish == finish_reason::error);
  CHECK(none.status == status::empty_support);
  CHECK(none.tokens == std::vector<token>(5, mask));
}

/// The message of what `call` throws.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& e) { return e.what(); }
  return "";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a spread is finite and not negative") {
  toy_masked<double> model{world_with(nullptr)};
  for (const double spread : {-0.1, HUGE_VAL, std::nan("")}) {
    const std::string message = refusal([&] {
      canvas_decoder<3>(model, 1, diffusion::order::confidence{},
                        diffusion::verifier::stepwise_exact{}, fill_sampler{}, spread);
    });
    CHECK(message.find("spread") != std::string::npos);
  }
}

TEST_CASE("requests that cannot be done as asked are refused") {
  toy_masked<double> model{world_with(nullptr), 12};
  auto d = canvas_decoder<3>(model);
  const std::vector<token> one{1};
  const auto why = [&](const std::vector<token>& prompt, const generation_options& options,
                       const diffusion::canvas_options& canvas = {}) {
    const std::string message = refusal([&] { d.add(prompt, options, canvas); });
    CHECK(message.starts_with("hunch::diffusion::decoder: "));
    CHECK(d.running() == 0);
    CHECK(d.step().empty());
    return message;
  };
  CHECK(contains(why({}, {}), "the prompt is empty"));
  CHECK(contains(why({1, vocab}, {.max_new_tokens = 4}), "invalid_token"));
  CHECK(contains(why({1, -1}, {.max_new_tokens = 4}), "invalid_token"));
  CHECK(contains(why({1, mask}, {.max_new_tokens = 4}), "mask token"));
  CHECK(contains(why(one, {.max_new_tokens = 0}), "max_new_tokens"));
  CHECK(contains(why(one, {.max_new_tokens = 12}), "a canvas of 13 positions"));
  CHECK(contains(why(one, {.max_new_tokens = 4, .temperature = -1.0f}), "invalid_parameter"));
  CHECK(
      contains(why(one, {.max_new_tokens = 4, .temperature = std::nanf("")}), "invalid_parameter"));
  CHECK(contains(why(one, {.max_new_tokens = 4, .top_k = 2}), "no stage"));
  CHECK(contains(why(one, {.max_new_tokens = 4, .repetition_penalty = 1.5f}), "no stage"));
  CHECK(contains(why(one, {.max_new_tokens = 4, .stop_strings = {"a"}}), "no stop strings"));
  CHECK(contains(why(one, {.max_new_tokens = 4, .log_probabilities = 1}),
                 "log-probabilities are not reported of a canvas"));
  CHECK(contains(why(one, {.max_new_tokens = 4, .stop_tokens = {vocab}}),
                 "a stop token " + std::to_string(vocab)));
  CHECK(contains(why(one, {.max_new_tokens = 4, .stop_tokens = {mask}}), "is the mask token"));
  CHECK(contains(why(one, {.max_new_tokens = 4}, {.block_length = 0}), "block_length"));
  const std::vector<token> five(5, mask);
  CHECK(contains(why(one, {.max_new_tokens = 4}, {.answer = five}), "longer"));
  const std::vector<token> full{1, 1, 1, 1};
  CHECK(contains(why(one, {.max_new_tokens = 4}, {.answer = full}), "no mask"));
  const std::vector<token> wrong{1, vocab};
  CHECK(contains(why(one, {.max_new_tokens = 4}, {.answer = wrong}), "invalid_token"));
  // And the largest that can be done.
  CHECK(d.generate(one, {.max_new_tokens = 11}, {.block_length = 1 << 30}).tokens.size() == 11);
}

TEST_CASE("a full batch refuses the next request, and says what to raise") {
  toy_masked<double> model{world_with(nullptr)};
  auto d = canvas_decoder<3>(model);
  add(d, task_of(1));
  CHECK_THROWS_WITH_AS(add(d, task_of(2)),
                       "hunch::diffusion::decoder: 1 requests are running; raise "
                       "diffusion::decoder_options::max_batch",
                       std::length_error);
  CHECK(d.running() == 1);
}

TEST_CASE("decoders that cannot be are refused") {
  const auto why = [](const diffusion::decoder_options& options, token mask_token) {
    canvas_world world = world_with(nullptr);
    world.mask = mask_token;
    toy_masked<double> model{world, 20};
    return refusal([&] {
      diffusion::decoder d(model, diffusion::order::confidence{}, fill_sampler{},
                           diffusion::verifier::stepwise_exact{}, diffusion::stepwise{}, options);
    });
  };
  CHECK(why({}, mask).empty());
  CHECK(contains(why({.max_batch = 0}, mask), "max_batch"));
  CHECK(contains(why({.max_canvas = 1}, mask), "max_canvas"));
  CHECK(contains(why({.max_canvas = 21}, mask), "max_positions() 20"));
  CHECK(contains(why({.max_batch = 1 << 30}, mask), "too large"));
  CHECK(contains(why({}, -1), "mask_token() is negative"));
}

}  // namespace
}  // namespace hunch::test::input_test
