// SPDX-License-Identifier: Apache-2.0
#include "generate/terminal.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include <command_line/files.hpp>
#include <engine/text/utf8.hpp>

namespace generate {

namespace {

bool moves_cursor() {
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string(term) == "dumb";
  return isatty(STDOUT_FILENO) != 0 && !dumb;
}

bool wants_color(color_mode mode) {
  if (mode != color_mode::automatic) { return mode == color_mode::always; }
  const char* no_color = std::getenv("NO_COLOR");
  return moves_cursor() && (no_color == nullptr || *no_color == '\0');
}

const char* paint(hunch::origin from) {
  switch (from) {
    case hunch::origin::accepted:
      return "\033[32m";
    case hunch::origin::corrected:
      return "\033[31m";
    case hunch::origin::bonus:
      return "\033[36m";
    case hunch::origin::sampled:
      return "";
  }
  return "";
}

}  // namespace

terminal::terminal(color_mode mode) : color_(wants_color(mode)), cursor_(moves_cursor()) {}

void terminal::legend() const {
  if (!color_) { return; }
  const std::string line = painted("accepted", hunch::origin::accepted) + "  " +
                           painted("corrected", hunch::origin::corrected) + "  " +
                           painted("bonus", hunch::origin::bonus) + "\n\n";
  std::fputs(line.c_str(), stdout);
}

void terminal::write(const std::string& bytes, hunch::origin from) {
  held_ += bytes;
  const std::string text = painted(engine::text::take_characters(held_), from);
  std::fwrite(text.data(), 1, text.size(), stdout);
  command_line::flush_output();
}

void terminal::finish() {
  const std::string text = engine::text::well_formed(std::exchange(held_, {}));
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputs("\n", stdout);
}

void terminal::preview(const std::string& bytes, hunch::origin from) {
  if (!previews_) {
    // Two lines down and up again, so that what follows does not scroll; then the place is kept.
    std::fputs("\033D\033D\033[2A\0337", stdout);
    previews_ = true;
  }
  std::string text = engine::text::well_formed(bytes);
  for (char& c : text) {
    if (c == '\n' || c == '\t') { c = ' '; }
  }
  text = painted(text, from);
  std::fwrite(text.data(), 1, text.size(), stdout);
  command_line::flush_output();
}

void terminal::take_back() {
  if (previews_) { std::fputs("\0338\033[J", stdout); }
  previews_ = false;
}

std::string terminal::painted(const std::string& text, hunch::origin from) const {
  const std::string start = color_ ? paint(from) : "";
  return start.empty() || text.empty() ? text : start + text + "\033[0m";
}

}  // namespace generate
