// SPDX-License-Identifier: Apache-2.0
#include "evaluate/scores.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <generate/measure.hpp>

#include "common.hpp"
#include "json.hpp"

namespace bench::evaluate {
namespace {

/// use(name, first, last) for each class of entropy: its categories.
template <class Use>
void for_each_class(const std::vector<category>& categories, const Use& use) {
  for (std::size_t first = 0; first < categories.size();) {
    const std::string& name = categories[first].entropy_class;
    std::size_t last = first;
    while (last < categories.size() && categories[last].entropy_class == name) { ++last; }
    use(name + " entropy", first, last);
    first = last;
  }
}

}  // namespace

scores::scores(std::string preset, int temperature, const std::vector<category>& categories,
               std::int32_t levels, std::size_t prompts)
    : preset_(std::move(preset)),
      temperature_(temperature),
      categories_(categories),
      all_(categories.size(), {request_metrics(levels), paired_rounds(prompts)}) {}

std::string scores::row() const { return preset_ + ", T = " + std::to_string(temperature_) + ", "; }

void scores::wrote(report& out, std::size_t category, std::size_t prompt,
                   const std::vector<hunch::token>& text, const request_metrics& drafts) {
  of_category& to = all_[category];
  to.drafts += drafts;
  to.repeated += generate::repeated_4grams(text);
  to.texts += 1.0;
  const evaluate::category& of = categories_[category];
  out.list("requests",
           "{\"preset\": " + json_string(preset_) + ", \"temperature\": " +
               std::to_string(temperature_) + ", \"category\": " + json_string(of.name) +
               ", \"usage\": {\"prompt_tokens\": " + std::to_string(of.prompts[prompt].size()) +
               ", \"completion_tokens\": " + std::to_string(text.size()) +
               "}, \"metrics\": {\"speculative_decoding\": " + drafts.json() + "}}");
}

void scores::timed(std::size_t category, std::size_t prompt, double ratio, bool identical) {
  all_[category].rounds.add(prompt, ratio);
  identical_ += identical ? 1.0 : 0.0;
  rounds_ += 1.0;
}

void scores::add_rows(report& out, kind of, bool promises_text) const {
  const bool fills = of == kind::canvas;
  const std::string steps_name = fills ? ": passes per token" : ": tokens per step";
  const std::string steps_unit = fills ? "passes" : "tokens";
  std::vector<double> steps, repeated, speeds;
  request_metrics drafts(all_[0].drafts.levels());
  paired_rounds rounds(0);
  for (std::size_t c = 0; c < all_.size(); ++c) {
    const double tokens = all_[c].drafts.tokens_per_step();
    steps.push_back(fills ? 1.0 / tokens : tokens);
    speeds.push_back(all_[c].rounds.speed_up());
    repeated.push_back(all_[c].repeated / all_[c].texts);
    drafts += all_[c].drafts;
    rounds += all_[c].rounds;
    const std::string name = row() + categories_[c].name;
    out.add(name + steps_name, steps[c], steps_unit);
    out.add(name + ": speed-up", speeds[c], "x");
    out.record(name + ": speed-up, standard error", all_[c].rounds.error(), "x");
    out.record(name + ": repeated 4-grams", repeated[c], "");
  }
  for_each_class(categories_, [&](const std::string& name, std::size_t first, std::size_t last) {
    const auto begin = static_cast<std::ptrdiff_t>(first);
    const auto end = static_cast<std::ptrdiff_t>(last);
    paired_rounds of_class(0);
    for (std::size_t c = first; c < last; ++c) { of_class += all_[c].rounds; }
    out.add(row() + name + steps_name, mean({steps.begin() + begin, steps.begin() + end}),
            steps_unit);
    out.add(row() + name + ": speed-up", of_class.speed_up(), "x");
    out.record(row() + name + ": speed-up, standard error", of_class.error(), "x");
  });
  out.add(row() + "mean" + steps_name, mean(steps), steps_unit);
  out.add(row() + "worst category" + steps_name,
          fills ? std::ranges::max(steps) : std::ranges::min(steps), steps_unit);
  constexpr std::int64_t enough = 20;  // drafts that a share says something of
  for (std::int32_t i = 0; i < drafts.levels() && drafts.tested_at(i) >= enough; ++i) {
    out.record(row() + "mean: acceptance at position " + std::to_string(i + 1),
               drafts.acceptance_at(i), "");
  }
  out.add(row() + "mean: speed-up", rounds.speed_up(), "x");
  out.record(row() + "mean: speed-up, standard error", rounds.error(), "x");
  out.add(row() + "worst category: speed-up", std::ranges::min(speeds), "x");
  out.add(row() + "mean: repeated 4-grams", mean(repeated), "");
  out.add(row() + "worst category: repeated 4-grams", std::ranges::max(repeated), "");
  if (promises_text) {
    out.add(row() + "mean: texts that are those of plain decoding", identical_ / rounds_, "",
            at_least(1.0));
  }
}

}  // namespace bench::evaluate
