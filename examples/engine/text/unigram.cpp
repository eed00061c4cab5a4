// SPDX-License-Identifier: Apache-2.0
#include <engine/text/unigram.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <engine/text/utf8.hpp>

namespace engine::text {
namespace {

/// An unknown character is by this less probable than any token, as in SentencePiece.
constexpr double penalty = 10.0;

}  // namespace

unigram::unigram(spellings tokens, std::vector<double> scores, const options& how)
    : tokens_(std::move(tokens)), scores_(std::move(scores)), how_(how) {
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - penalty;
  for (const std::string& spelling : tokens_.by_token()) {
    longest_ = std::max(longest_, spelling.size());
  }
}

std::vector<unigram::end> unigram::best_ends(std::string_view piece) const {
  std::vector<end> out(piece.size() + 1);
  for (std::size_t at = 0; at < piece.size();) {
    const double here = out[at].score;
    const auto offer = [&](std::size_t bytes, double score, hunch::token t) {
      end& there = out[at + bytes];
      if (!there.reached || here + score > there.score) { there = {here + score, at, t, true}; }
    };
    const std::size_t one = first_character(piece.substr(at)).bytes;
    bool known = false;
    for (std::size_t bytes = 1; bytes <= std::min(longest_, piece.size() - at); ++bytes) {
      const hunch::token t = tokens_.of(piece.substr(at, bytes));
      if (t == hunch::no_token) { continue; }
      offer(bytes, scores_[static_cast<std::size_t>(t)], t);
      known = known || bytes == one;
    }
    if (!known) {
      if (how_.unknown == hunch::no_token) {
        throw std::runtime_error("engine::tokenizer: '" + std::string(piece.substr(at, one)) +
                                 "' is no token, and there is none for what is unknown");
      }
      offer(one, unknown_score_, how_.unknown);
    }
    at += one;
  }
  return out;
}

void unigram::add_unknown(std::string_view text, std::vector<hunch::token>& out) const {
  const std::size_t before = out.size();
  if (how_.byte_fallback) {
    for (const char byte : text) {
      out.push_back(tokens_.of_byte(static_cast<unsigned char>(byte)));
    }
  }
  const auto first = out.begin() + static_cast<std::ptrdiff_t>(before);
  if (first == out.end() || std::find(first, out.end(), hunch::no_token) != out.end()) {
    out.resize(before);
    out.push_back(how_.unknown);
  }
}

void unigram::add(std::string_view piece, const std::vector<end>& best,
                  std::vector<hunch::token>& out) const {
  std::vector<std::pair<range, hunch::token>> parts;  // from the last one on
  for (std::size_t at = piece.size(); at > 0; at = best[at].begin) {
    const bool unknown = best[at].t == how_.unknown;
    if (unknown && !parts.empty() && parts.back().second == how_.unknown) {
      parts.back().first.begin = best[at].begin;
    } else {
      parts.push_back({{best[at].begin, at}, best[at].t});
    }
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->second == how_.unknown) {
      add_unknown(part->first.of(piece), out);
    } else {
      out.push_back(part->second);
    }
  }
}

void unigram::encode(const pieces& of, std::vector<hunch::token>& out) const {
  for (const range& at : of.at) {
    const std::string_view piece = at.of(of.text);
    add(piece, best_ends(piece), out);
  }
}

}  // namespace engine::text
