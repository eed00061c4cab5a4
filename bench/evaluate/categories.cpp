// SPDX-License-Identifier: Apache-2.0
#include "evaluate/categories.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <engine/row_batch.hpp>
#include <hunch/distribution/entropy.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/team/serial.hpp>

#include "prompts.hpp"

namespace bench::evaluate {
namespace {

using hunch::token;

double mean_entropy(engine::model& target, const std::vector<token>& text) {
  constexpr std::size_t places = 32;
  constexpr std::size_t context = 64;  // that is read before
  constexpr std::size_t length = 32;
  hunch::team::serial team;
  const hunch::sampler::pipeline<hunch::sampler::temperature> law_of;
  hunch::sampling_parameters untempered;
  untempered.temperature = 1.0f;
  if (text.size() < context + length) {
    throw std::runtime_error("a held-out text has fewer than " + std::to_string(context + length) +
                             " tokens");
  }
  double sum = 0.0;
  for (std::size_t place = 0; place < places; ++place) {
    const auto first = text.begin() + static_cast<std::ptrdiff_t>((text.size() - context - length) *
                                                                  place / places);
    const auto middle = first + static_cast<std::ptrdiff_t>(context);
    engine::read(target, 0, {first, middle}, static_cast<int>(context));
    engine::row_batch rows;
    rows.add_chain(0, target.length(0), {middle, middle + static_cast<std::ptrdiff_t>(length)});
    const auto evaluated = target.evaluate(rows.view());
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(length); ++row) {
      sum += hunch::kernel::entropy(team, law_of(team, evaluated.logits(row), untempered, {}));
    }
    engine::release(target, 0);
  }
  return sum / static_cast<double>(places * length);
}

}  // namespace

std::vector<category> categories_of(engine::model& target, const engine::tokenizer& text,
                                    const std::filesystem::path& heldout, std::size_t prompts) {
  std::vector<category> all;
  for (const std::string& name : domains(heldout)) {
    const std::filesystem::path file = heldout / (name + ".txt");
    category& one = all.emplace_back();
    one.name = name;
    one.entropy = mean_entropy(target, tokens_of(text, file));
    one.prompts = prompts_in(text, file, prompts);
  }
  std::ranges::stable_sort(all, {}, &category::entropy);
  constexpr std::array classes{"low", "medium", "high"};
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].entropy_class = classes[i * classes.size() / all.size()];
  }
  return all;
}

}  // namespace bench::evaluate
