// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <engine/text/spellings.hpp>
#include <engine/text/subwords.hpp>

namespace engine::text {

/// The most probable tokens of a piece, each drawn on its own (Kudo 2018, arXiv:1804.10959). A
/// piece of n bytes costs O(n L^2), L being the bytes of the longest token, at most `longest`.
class unigram final : public subwords {
 public:
  static constexpr std::size_t longest = 1024;

  struct options {
    hunch::token unknown = hunch::no_token;  ///< what characters that are no token become
    bool byte_fallback = false;              ///< they are their bytes, if those are tokens
  };

  /// \param tokens  no longer than `longest`
  /// \param scores  of each token, logarithms of its probability
  unigram(spellings tokens, std::vector<double> scores, const options& how);

  /// \throws std::runtime_error for a character that is no token where there is no unknown one
  void encode(const pieces& of, std::vector<hunch::token>& out) const override;
  const spellings& spelled() const override { return tokens_; }

 private:
  /// The best way to make the text up to here.
  struct end {
    double score = 0.0;
    std::size_t begin = 0;  ///< of its last token
    hunch::token t = hunch::no_token;
    bool reached = false;
  };

  std::vector<end> best_ends(std::string_view piece) const;
  void add(std::string_view piece, const std::vector<end>& best,
           std::vector<hunch::token>& out) const;
  void add_unknown(std::string_view text, std::vector<hunch::token>& out) const;

  spellings tokens_;
  std::vector<double> scores_;
  options how_;
  double unknown_score_ = 0.0;
  std::size_t longest_ = 0;
};

}  // namespace engine::text
