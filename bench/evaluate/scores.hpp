// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <hunch/core/types.hpp>

#include "common.hpp"
#include "evaluate/categories.hpp"
#include "evaluate/request_metrics.hpp"
#include "paired.hpp"

namespace bench::evaluate {

/// How much is measured.
struct extent {
  std::size_t prompts;      ///< of each category
  std::int32_t new_tokens;  ///< of each text
  int rounds;               ///< of each text beside plain decoding; two at least
};

/// What a decoder counts by: it writes text, or fills canvases.
enum class kind { text, canvas };

/// What a preset makes of the texts of every category at one temperature.
class scores {
 public:
  /// \param levels  that a draft can have. \param prompts  of each category.
  scores(std::string preset, int temperature, const std::vector<category>& categories,
         std::int32_t levels, std::size_t prompts);

  /// A text, whose drafts were as long as they can be.
  void wrote(report& out, std::size_t category, std::size_t prompt,
             const std::vector<hunch::token>& text, const request_metrics& drafts);
  /// A round beside plain decoding, drafts as long as pays.
  void timed(std::size_t category, std::size_t prompt, double ratio, bool identical);

  /// For each category, each class of entropy, all, and the worst category: tokens per step, or
  /// passes per token, and speed-up; acceptance by position and the share of repeated 4-grams.
  /// \param promises_text  whether texts are those of plain decoding at this temperature.
  void add_rows(report& out, kind of, bool promises_text) const;

 private:
  struct of_category {
    request_metrics drafts;
    paired_rounds rounds;
    double repeated = 0.0;  ///< 4-grams: the sum of the shares of its texts
    double texts = 0.0;
  };

  std::string row() const;

  std::string preset_;
  int temperature_;
  const std::vector<category>& categories_;
  std::vector<of_category> all_;
  double identical_ = 0.0;
  double rounds_ = 0.0;
};

}  // namespace bench::evaluate
