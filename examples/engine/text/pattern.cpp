// SPDX-License-Identifier: Apache-2.0
#include <engine/text/pattern.hpp>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace engine::text {
namespace {

/// The property White_Space. PCRE2's \s has U+180E besides.
constexpr std::string_view white_space =
    "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"
    "\\x{3000}";

constexpr std::array<std::string_view, 37> categories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

constexpr std::array<std::string_view, 7> groups = {
    "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:"};

/// Writes an expression of Oniguruma for PCRE2, from left to right.
class translation {
 public:
  explicit translation(std::string_view from) : from_(from) {}

  std::string result() {
    while (at_ < from_.size()) {
      if (from_[at_] == '\\') {
        escape();
      } else if (in_class_) {
        within_class();
      } else {
        outside();
      }
    }
    if (in_class_) { refuse("[ without ]"); }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw std::invalid_argument("has " + what + " before byte " + std::to_string(at_ + 1) +
                                " or there, which is not supported");
  }
  bool follows(std::string_view text) const { return from_.substr(at_).starts_with(text); }
  void copy(std::size_t bytes) { replace(bytes, from_.substr(at_, bytes)); }
  void replace(std::size_t bytes, std::string_view by) {
    out_ += by;
    at_ += bytes;
  }

  void escape() {
    const char c = at_ + 1 < from_.size() ? from_[at_ + 1] : '\0';
    if (c == 's' || c == 'S') { return space(c == 'S'); }
    if (c == 'p' || c == 'P') { return property(); }
    if (c == 'd' || c == 'D') { return replace(2, c == 'd' ? "\\p{Nd}" : "\\P{Nd}"); }
    if (c == 'u') {
      const std::string_view digits = from_.substr(std::min(at_ + 2, from_.size()), 4);
      const bool hexadecimal = std::all_of(digits.begin(), digits.end(), [](unsigned char digit) {
        return std::isxdigit(digit) != 0;
      });
      if (digits.size() < 4 || !hexadecimal) { refuse("\\u without four digits"); }
      return replace(6, "\\x{" + std::string(digits) + "}");
    }
    if (c == 'x' && from_.substr(at_ + 2).starts_with('{')) {
      // As a whole: its digits are no count.
      return copy(std::min(from_.find('}', at_), from_.size() - 1) + 1 - at_);
    }
    const bool itself = std::ispunct(static_cast<unsigned char>(c)) != 0;
    if (!itself && std::string_view("rntf").find(c) == std::string_view::npos) {
      refuse(std::string("\\") + c);
    }
    copy(2);
  }

  void space(bool all_but) {
    if (all_but && in_class_) { refuse("\\S in a class"); }
    const std::string listed(white_space);
    replace(2, in_class_ ? listed : (all_but ? "[^" : "[") + listed + "]");
  }

  /// Categories are the same in both; scripts PCRE2 would take with their extensions.
  void property() {
    const std::size_t end = from_.find('}', at_);
    if (end == std::string_view::npos || !from_.substr(at_ + 2).starts_with('{')) {
      refuse("\\p without {}");
    }
    const std::string_view name = from_.substr(at_ + 3, end - at_ - 3);
    if (std::find(categories.begin(), categories.end(), name) != categories.end()) {
      return copy(end + 1 - at_);
    }
    const bool letters = std::all_of(name.begin(), name.end(), [](unsigned char letter) {
      return std::isalpha(letter) != 0 || letter == '_';
    });
    if (name.size() < 3 || !letters) { refuse("\\p{" + std::string(name) + "}"); }
    const std::string begin(from_.substr(at_, 3));
    replace(end + 1 - at_, begin + "sc:" + std::string(name) + "}");
  }

  void within_class() {
    if (follows("[")) { refuse("[ in a class"); }
    if (follows("&&")) { refuse("&& in a class"); }
    if (follows("]")) { in_class_ = false; }
    copy(1);
  }

  void outside() {
    if (follows("[")) {
      in_class_ = true;
      copy(follows("[^") ? 2 : 1);
      if (follows("]")) { refuse("an empty class"); }
      return;
    }
    if (follows("^") || follows("$")) { refuse(std::string(from_.substr(at_, 1))); }
    if (follows("}+")) { refuse("}+"); }               // possessive, or repeated once more
    if (follows("{,")) { refuse("{,"); }               // none to so many, or these characters
    if (follows("}?") && counts_) { refuse("{n}?"); }  // lazy, or optional
    counts_ =
        follows("{") || (counts_ && std::isdigit(static_cast<unsigned char>(from_[at_])) != 0);
    if (follows("(?") || follows("(*")) {
      for (const std::string_view group : groups) {
        if (follows(group)) { return copy(group.size()); }
      }
      refuse("the group " + std::string(from_.substr(at_, 4)));
    }
    copy(1);
  }

  std::string_view from_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  bool counts_ = false;  ///< after { and digits
  std::string out_;
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

struct free_settings {
  void operator()(pcre2_compile_context* settings) const { pcre2_compile_context_free(settings); }
};

struct free_match {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

pattern pattern::expression(std::string_view expression) {
  const std::string translated = translation(expression).result();
  int error = 0;
  PCRE2_SIZE at = 0;
  // What a dot does not match; else whoever built PCRE2 decides it.
  const std::unique_ptr<pcre2_compile_context, free_settings> settings(
      pcre2_compile_context_create(nullptr));
  pcre2_set_newline(settings.get(), PCRE2_NEWLINE_LF);
  pcre2_code* const code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, settings.get());
  if (code == nullptr) {
    throw std::invalid_argument("is not understood: " + message_of(error) + ", in " + translated +
                                " at byte " + std::to_string(at));
  }
  // Where there is no compiler for this processor, it is interpreted.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  pattern out;
  out.code_ = std::shared_ptr<const void>(code, [](const void* of) {
    pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(of)));
  });
  return out;
}

pattern pattern::literal(std::string text) {
  pattern out;
  out.literal_ = std::move(text);
  return out;
}

std::vector<range> pattern::matches(std::string_view text) const {
  std::vector<range> out;
  if (code_ == nullptr) {
    if (literal_.empty()) { return out; }
    for (std::size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos;) {
      out.push_back({at, at + literal_.size()});
      at += literal_.size();
    }
    return out;
  }
  const auto* const code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, free_match> data(
      pcre2_match_data_create_from_pattern(code, nullptr));
  const PCRE2_SIZE* const found = pcre2_get_ovector_pointer(data.get());
  const auto* const subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t at = 0;
  bool was_empty = false;
  while (at <= text.size()) {
    // After an empty match there must be another one, or one that begins further on.
    const std::uint32_t options =
        PCRE2_NO_UTF_CHECK | (was_empty ? PCRE2_NOTEMPTY_ATSTART : std::uint32_t{0});
    const int count = pcre2_match(code, subject, text.size(), at, options, data.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) { break; }
    if (count < 0) {
      throw std::runtime_error("engine::tokenizer: a text cannot be split: " + message_of(count));
    }
    out.push_back({found[0], found[1]});
    at = found[1];
    was_empty = found[0] == found[1];
  }
  return out;
}

std::string pattern::replaced(std::string_view text, std::string_view by) const {
  std::string out;
  std::size_t end = 0;
  for (const range& match : matches(text)) {
    out.append(text, end, match.begin - end).append(by);
    end = match.end;
  }
  return out.append(text.substr(end));
}

}  // namespace engine::text
