// SPDX-License-Identifier: Apache-2.0
#include <engine/text/bpe.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <engine/text/utf8.hpp>

namespace engine::text {
namespace {

constexpr std::size_t letters = 0x200;
/// Tokens that are worth cutting further.
constexpr std::size_t long_piece = 64;

std::uint64_t key_of(hunch::token left, hunch::token right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

/// The tokens of a piece while they are merged: a list that is linked, so that merging moves none.
class bpe::word {
 public:
  explicit word(const bpe& of) : of_(of) {}

  /// Merges what there is to merge, and adds the rest to `out`.
  void merge(std::span<const hunch::token> tokens, std::vector<hunch::token>& out) {
    begin(tokens);
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), later);
      const candidate c = candidates_.back();
      candidates_.pop_back();
      if (!is_still_there(c)) { continue; }
      node& left = nodes_[c.at];
      node& right = nodes_[left.next];
      left.t = c.joined;
      right.t = hunch::no_token;
      left.next = right.next;
      if (left.next < nodes_.size()) { nodes_[left.next].previous = c.at; }
      if (left.previous < nodes_.size()) { consider(left.previous); }
      consider(c.at);
    }
    for (const node& n : nodes_) {
      if (n.t != hunch::no_token) { out.push_back(n.t); }
    }
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct node {
    hunch::token t;
    std::size_t previous, next;
  };
  struct candidate {
    std::int32_t rank;
    std::size_t at;
    hunch::token joined;
  };

  static bool later(const candidate& a, const candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  }

  void begin(std::span<const hunch::token> tokens) {
    nodes_.clear();
    candidates_.clear();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      nodes_.push_back({tokens[i], i == 0 ? none : i - 1, i + 1 == tokens.size() ? none : i + 1});
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) { consider(i); }
  }

  void consider(std::size_t at) {
    const std::size_t next = nodes_[at].next;
    if (next >= nodes_.size()) { return; }
    if (const ranked* found = of_.rank_of(nodes_[at].t, nodes_[next].t)) {
      candidates_.push_back({found->rank, at, found->joined});
      std::push_heap(candidates_.begin(), candidates_.end(), later);
    }
  }

  bool is_still_there(const candidate& c) const {
    const node& left = nodes_[c.at];
    if (left.t == hunch::no_token || left.next >= nodes_.size()) { return false; }
    const ranked* const found = of_.rank_of(left.t, nodes_[left.next].t);
    return found != nullptr && found->joined == c.joined;
  }

  const bpe& of_;
  std::vector<node> nodes_;
  std::vector<candidate> candidates_;
};

bpe::bpe(spellings tokens, const std::vector<merge>& merges, const options& how)
    : tokens_(std::move(tokens)), how_(how), of_letter_(letters) {
  ranks_.reserve(merges.size());
  for (std::size_t i = 0; i < merges.size(); ++i) {
    ranks_.insert_or_assign(key_of(merges[i].left, merges[i].right),
                            ranked{static_cast<std::int32_t>(i), merges[i].joined});
    join_ends(merges[i]);
  }
  for (std::size_t code = 0; code < letters; ++code) {
    of_letter_[code] = tokens_.of(encoded(static_cast<char32_t>(code)));
  }
}

/// Notes between which characters this one joins tokens. A piece can be cut between all others: a
/// merge that reached across would join a token that ends there with one that begins there. What
/// a piece begins as are tokens of a character, or of a byte, which are spelled by more of them.
void bpe::join_ends(const merge& one) {
  const std::string_view left = tokens_.by_token()[static_cast<std::size_t>(one.left)];
  const std::string_view right = tokens_.by_token()[static_cast<std::size_t>(one.right)];
  std::size_t last = left.size() - 1;
  while (last > 0 && (static_cast<unsigned char>(left[last]) & 0xC0u) == 0x80u) { --last; }
  const hunch::token ends[] = {one.left, tokens_.of(left.substr(last))};
  const hunch::token begins[] = {one.right,
                                 tokens_.of(right.substr(0, first_character(right).bytes))};
  for (const hunch::token a : ends) {
    for (const hunch::token b : begins) { joined_ends_.insert(key_of(a, b)); }
  }
}

const bpe::ranked* bpe::rank_of(hunch::token left, hunch::token right) const {
  const auto found = ranks_.find(key_of(left, right));
  return found == ranks_.end() ? nullptr : &found->second;
}

void bpe::characters(std::string_view piece, std::vector<hunch::token>& out) const {
  bool unknown = false;  // one waits to be added
  while (!piece.empty()) {
    const character c = first_character(piece);
    const std::string_view spelling = piece.substr(0, c.bytes);
    piece.remove_prefix(c.bytes);
    const hunch::token t = c.code < letters ? of_letter_[c.code] : tokens_.of(spelling);
    if (t != hunch::no_token) {
      if (std::exchange(unknown, false)) { out.push_back(how_.unknown); }
      out.push_back(t);
      continue;
    }
    if (how_.byte_fallback) {
      const std::size_t before = out.size();
      for (const char byte : spelling) {
        out.push_back(tokens_.of_byte(static_cast<unsigned char>(byte)));
      }
      if (std::find(out.begin() + static_cast<std::ptrdiff_t>(before), out.end(),
                    hunch::no_token) == out.end()) {
        continue;
      }
      out.resize(before);
    }
    if (how_.unknown == hunch::no_token) { continue; }
    if (unknown && !how_.fuse_unknown) { out.push_back(how_.unknown); }
    unknown = true;
  }
  if (unknown) { out.push_back(how_.unknown); }
}

void bpe::encode(const pieces& of, std::vector<hunch::token>& out) const {
  word one(*this);
  std::vector<hunch::token> begun;
  for (const range& at : of.at) {
    const std::string_view piece = at.of(of.text);
    const hunch::token whole = how_.ignore_merges ? tokens_.of(piece) : hunch::no_token;
    if (whole != hunch::no_token) {
      out.push_back(whole);
      continue;
    }
    begun.clear();
    characters(piece, begun);
    std::size_t begin = 0;
    for (std::size_t i = 1; begun.size() > long_piece && i < begun.size(); ++i) {
      if (joined_ends_.contains(key_of(begun[i - 1], begun[i]))) { continue; }
      one.merge(std::span(begun).subspan(begin, i - begin), out);
      begin = i;
    }
    one.merge(std::span(begun).subspan(begin), out);
  }
}

}  // namespace engine::text
