// SPDX-License-Identifier: Apache-2.0
#include <grammar/regular_grammar.hpp>

#include <algorithm>
#include <bitset>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace grammar {
namespace {

using byte_set = std::bitset<256>;

// What is refused, so that no expression takes the stack, or gigabytes, or minutes.
constexpr int max_groups = 100;             ///< inside one another
constexpr std::size_t max_parts = 1 << 14;  ///< states of the automaton that is parsed
constexpr std::size_t max_states = 4096;    ///< of the deterministic one
constexpr std::size_t max_members = std::size_t{1} << 23;  ///< of all its states together
constexpr std::size_t max_moves = std::size_t{1} << 26;    ///< of these, by every kind of byte

[[noreturn]] void refuse_size(const std::string& why) {
  throw std::invalid_argument("regular expression: " + why);
}

/// A non-deterministic automaton: states with edges for sets of bytes, and edges for nothing.
struct automaton {
  struct edge {
    byte_set bytes;
    int to;
  };
  std::vector<std::vector<edge>> edges;
  std::vector<std::vector<int>> free_edges;

  int add() {
    if (edges.size() == max_parts) {
      refuse_size("it has more than " + std::to_string(max_parts) +
                  " parts, repetitions written out");
    }
    edges.emplace_back();
    free_edges.emplace_back();
    return static_cast<int>(edges.size()) - 1;
  }
  /// Adds states like [first, last), of which no edge leads to others. Returns how far after them.
  int repeat(int first, int last) {
    const int by = size() - first;
    for (int from = first; from < last; ++from) {
      const int to = add();
      const auto& all = edges[static_cast<std::size_t>(from)];
      for (const edge& e : all) { join(to, e.bytes, e.to + by); }
      const auto& free = free_edges[static_cast<std::size_t>(from)];
      for (const int next : free) { join(to, next + by); }
    }
    return by;
  }
  int size() const { return static_cast<int>(edges.size()); }
  void join(int from, int to) { free_edges[static_cast<std::size_t>(from)].push_back(to); }
  void join(int from, const byte_set& bytes, int to) {
    edges[static_cast<std::size_t>(from)].push_back({bytes, to});
  }
};

/// A part of an automaton with one way in and one way out.
struct fragment {
  int in;
  int out;

  fragment shifted(int states) const { return {in + states, out + states}; }
};

byte_set range(int first, int last) {
  byte_set out;
  for (int b = first; b <= last; ++b) { out.set(static_cast<std::size_t>(b)); }
  return out;
}

/// Recursive descent: alternatives of sequences of repeated atoms. Each copy of an atom has states
/// of its own.
class parser {
 public:
  parser(std::string_view expression, automaton& to) : text_(expression), to_(to) {}

  fragment parse() {
    const fragment all = alternatives();
    if (at_ != text_.size()) { refuse("an unexpected '" + std::string(1, text_[at_]) + "'"); }
    return all;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw std::invalid_argument("regular expression: " + why + " at " + std::to_string(at_));
  }
  bool more() const { return at_ < text_.size(); }
  bool take(char c) {
    if (!more() || text_[at_] != c) { return false; }
    ++at_;
    return true;
  }

  fragment alternatives() {
    const fragment all{to_.add(), to_.add()};
    do {
      const fragment one = sequence();
      to_.join(all.in, one.in);
      to_.join(one.out, all.out);
    } while (take('|'));
    return all;
  }

  fragment sequence() {
    fragment all{to_.add(), 0};
    all.out = all.in;
    while (more() && text_[at_] != '|' && text_[at_] != ')') {
      const fragment one = repeated();
      to_.join(all.out, one.in);
      all.out = one.out;
    }
    return all;
  }

  fragment repeated() {
    const int first = to_.size();
    const fragment one = atom();
    const int last = to_.size();
    const std::size_t end = at_;
    int least = 1, most = 1;  // most < 0: no bound
    if (take('*')) {
      least = 0, most = -1;
    } else if (take('+')) {
      most = -1;
    } else if (take('?')) {
      least = 0;
    } else if (take('{')) {
      least = most = number();
      if (take(',')) { most = more() && text_[at_] != '}' ? number() : -1; }
      if (!take('}')) { refuse("a '}' is missing"); }
      if (most >= 0 && (most < least || most == 0)) { refuse("an empty repetition"); }
    }
    if (at_ == end) { return one; }
    std::vector<fragment> copies{one};  // all of them before the first is joined to anything
    while (std::ssize(copies) < std::max({least, most, 1})) {
      copies.push_back(one.shifted(to_.repeat(first, last)));
    }
    const fragment all{to_.add(), to_.add()};
    int tail = all.in;
    for (int i = 0; const fragment& copy : copies) {
      if (i++ >= least) { to_.join(tail, all.out); }
      to_.join(tail, copy.in);
      tail = copy.out;
    }
    if (most < 0) { to_.join(tail, copies.back().in); }
    to_.join(tail, all.out);
    return all;
  }

  int number() {
    int value = 0;
    const std::size_t begin = at_;
    while (more() && text_[at_] >= '0' && text_[at_] <= '9' && value < 1000) {
      value = 10 * value + (text_[at_++] - '0');
    }
    if (at_ == begin || value > 1000) { refuse("a number up to 1000 is missing"); }
    return value;
  }

  fragment atom() {
    if (take('(')) {
      if (++groups_ > max_groups) {
        refuse("more than " + std::to_string(max_groups) + " groups inside one another");
      }
      const fragment inner = alternatives();
      if (!take(')')) { refuse("a ')' is missing"); }
      --groups_;
      return inner;
    }
    if (take('.')) { return other_than(range('\n', '\n')); }
    if (take('[')) { return character_class(); }
    if (!more()) { refuse("the end"); }
    if (std::string_view("*+?{").find(text_[at_]) != std::string_view::npos) {
      refuse("nothing to repeat");
    }
    return one_of(sign());
  }

  /// One literal character or escape, as the bytes that it stands for.
  byte_set sign() {
    if (!take('\\')) {
      const int literal = static_cast<unsigned char>(text_[at_++]);
      return range(literal, literal);
    }
    if (!more()) { refuse("nothing is escaped"); }
    const char c = text_[at_++];
    switch (c) {
      case 'd':
        return range('0', '9');
      case 'w':
        return range('0', '9') | range('a', 'z') | range('A', 'Z') | range('_', '_');
      case 's':
        return range(' ', ' ') | range('\t', '\r');
      case 'n':
        return range('\n', '\n');
      case 't':
        return range('\t', '\t');
      default:
        return range(static_cast<unsigned char>(c), static_cast<unsigned char>(c));
    }
  }
  fragment character_class() {
    const bool negated = take('^');
    byte_set held;
    do {
      if (!more()) { refuse("a ']' is missing"); }
      byte_set first = sign();
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        const byte_set last = sign();
        if (first.count() != 1 || last.count() != 1 || lowest(last) < lowest(first)) {
          refuse("a range that is none");
        }
        first = range(lowest(first), lowest(last));
      }
      held |= first;
    } while (!take(']'));
    return negated ? other_than(held) : one_of(held);
  }

  static int lowest(const byte_set& bytes) {
    int b = 0;
    while (b < 255 && !bytes.test(static_cast<std::size_t>(b))) { ++b; }
    return b;
  }

  fragment one_of(const byte_set& bytes) {
    const fragment out{to_.add(), to_.add()};
    to_.join(out.in, bytes, out.out);
    return out;
  }

  /// Any character of UTF-8 that is not one of these ASCII characters.
  fragment other_than(const byte_set& excluded) {
    const fragment out = one_of(range(0, 127) & ~excluded);
    const byte_set tail = range(0x80, 0xbf);
    const auto several = [&](const byte_set& lead, int tails) {
      int from = out.in;
      byte_set bytes = lead;
      for (int i = 0; i < tails; ++i) {
        const int to = to_.add();
        to_.join(from, bytes, to);
        from = to;
        bytes = tail;
      }
      to_.join(from, bytes, out.out);
    };
    several(range(0xc2, 0xdf), 1);
    several(range(0xe0, 0xef), 2);
    several(range(0xf0, 0xf4), 3);
    return out;
  }

  std::string_view text_;
  automaton& to_;
  std::size_t at_ = 0;
  int groups_ = 0;  ///< that are open
};

using state_set = std::vector<int>;

/// The states that are reached from `from` for nothing, in order.
class closure {
 public:
  explicit closure(const automaton& a) : a_(a), seen_(a.free_edges.size()) {}

  state_set operator()(state_set from) {
    for (const int state : from) { seen_[static_cast<std::size_t>(state)] = true; }
    for (std::size_t i = 0; i < from.size(); ++i) {
      for (const int to : a_.free_edges[static_cast<std::size_t>(from[i])]) {
        if (seen_[static_cast<std::size_t>(to)]) { continue; }
        seen_[static_cast<std::size_t>(to)] = true;
        from.push_back(to);
      }
    }
    for (const int state : from) { seen_[static_cast<std::size_t>(state)] = false; }
    std::ranges::sort(from);
    return from;
  }

 private:
  const automaton& a_;
  std::vector<bool> seen_;
};

/// Bytes that every edge takes alike: a few groups, of which one byte each is tried.
std::vector<std::vector<std::size_t>> alike(const automaton& a) {
  std::vector<byte_set> groups{byte_set().set()};
  std::set<std::string> known;
  for (const auto& edges : a.edges) {
    for (const automaton::edge& edge : edges) {
      if (!known.insert(edge.bytes.to_string()).second) { continue; }
      for (std::size_t g = groups.size(); g-- > 0;) {
        const byte_set taken = groups[g] & edge.bytes;
        if (taken.none() || taken == groups[g]) { continue; }
        groups[g] &= ~edge.bytes;
        groups.push_back(taken);
      }
    }
  }
  std::vector<std::vector<std::size_t>> out;
  for (const byte_set& group : groups) {
    auto& bytes = out.emplace_back();
    for (std::size_t b = 0; b < 256; ++b) {
      if (group.test(b)) { bytes.push_back(b); }
    }
  }
  return out;
}

/// Which states lead to an accepting one.
std::vector<std::uint8_t> lead_on(const std::vector<std::array<std::int32_t, 256>>& next,
                                  const std::vector<std::uint8_t>& accepts) {
  std::vector<std::vector<std::size_t>> before(next.size());
  std::vector<std::size_t> found;
  for (std::size_t s = 0; s < next.size(); ++s) {
    if (accepts[s] != 0) { found.push_back(s); }
    for (const std::int32_t to : next[s]) {
      if (to < 0) { continue; }
      auto& from = before[static_cast<std::size_t>(to)];
      if (from.empty() || from.back() != s) { from.push_back(s); }
    }
  }
  std::vector<std::uint8_t> alive = accepts;
  while (!found.empty()) {
    const std::size_t s = found.back();
    found.pop_back();
    for (const std::size_t from : before[s]) {
      if (alive[from] == 0) { found.push_back(from); }
      alive[from] = 1;
    }
  }
  return alive;
}

}  // namespace

regular_grammar::regular_grammar(std::string_view expression, std::int32_t vocab_size,
                                 const std::function<std::string_view(hunch::token)>& token_text,
                                 hunch::token end)
    : words_(hunch::allowed_words(vocab_size)), end_(end) {
  automaton nfa;
  const fragment whole = parser(expression, nfa).parse();

  closure reached_from(nfa);
  const auto groups = alike(nfa);
  std::map<state_set, std::int32_t> known;
  std::vector<const state_set*> sets;
  std::size_t members = 0;
  const auto state_of = [&](state_set set) {
    const auto [found, fresh] =
        known.emplace(std::move(set), static_cast<std::int32_t>(sets.size()));
    if (fresh) {
      members += found->first.size();
      sets.push_back(&found->first);
    }
    if (sets.size() > max_states || members > max_members || members * groups.size() > max_moves) {
      refuse_size("its automaton has too many states");
    }
    return found->second;
  };
  state_of(reached_from({whole.in}));
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const state_set& here = *sets[s];
    accepts_.push_back(std::ranges::binary_search(here, whole.out) ? 1 : 0);
    auto& row = next_.emplace_back();
    row.fill(-1);
    for (const auto& bytes : groups) {
      state_set reached;
      for (const int from : here) {
        for (const auto& edge : nfa.edges[static_cast<std::size_t>(from)]) {
          if (edge.bytes.test(bytes.front())) { reached.push_back(edge.to); }
        }
      }
      if (reached.empty()) { continue; }
      std::ranges::sort(reached);
      reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
      const std::int32_t to = state_of(reached_from(std::move(reached)));
      for (const std::size_t b : bytes) { row[b] = to; }
    }
  }

  // States from which no text is ever complete are as good as none.
  const std::vector<std::uint8_t> alive = lead_on(next_, accepts_);
  if (alive[0] == 0) { throw std::invalid_argument("regular expression: no text matches it"); }
  for (auto& row : next_) {
    for (std::int32_t& to : row) {
      if (to >= 0 && alive[static_cast<std::size_t>(to)] == 0) { to = -1; }
    }
  }

  first_.push_back(0);
  for (hunch::token t = 0; t < vocab_size; ++t) {
    const std::string_view text = token_text(t);
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    first_.push_back(bytes_.size());
  }
  allowed_.assign(next_.size() * static_cast<std::size_t>(words_), 0);
  for (state s = 0; s < states(); ++s) {
    std::uint32_t* const words =
        allowed_.data() + static_cast<std::size_t>(s) * static_cast<std::size_t>(words_);
    for (hunch::token t = 0; t < vocab_size; ++t) {
      const bool fits = t == end ? accepts_[static_cast<std::size_t>(s)] != 0 : advance(s, t) >= 0;
      if (fits) { words[t / 32] |= 1u << (t % 32); }
    }
  }
}

regular_grammar::state regular_grammar::read(state s, std::string_view bytes) const noexcept {
  for (const char c : bytes) {
    if (s < 0) { return s; }
    s = next_[static_cast<std::size_t>(s)][static_cast<unsigned char>(c)];
  }
  return s;
}

regular_grammar::state regular_grammar::advance(state s, hunch::token t) const noexcept {
  const auto at = static_cast<std::size_t>(t);
  const std::string_view text(bytes_.data() + first_[at], first_[at + 1] - first_[at]);
  return t == end_ || text.empty() ? -1 : read(s, text);
}

void regular_grammar::allowed(state s, std::uint32_t* words) const noexcept {
  const auto count = static_cast<std::size_t>(words_);
  if (s < 0) {
    std::fill_n(words, count, 0u);
  } else {
    std::copy_n(allowed_.data() + static_cast<std::size_t>(s) * count, count, words);
  }
}

}  // namespace grammar
