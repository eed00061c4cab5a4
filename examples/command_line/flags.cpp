// SPDX-License-Identifier: Apache-2.0
#include <command_line/flags.hpp>

#include <algorithm>
#include <thread>

#include <CLI/CLI.hpp>

namespace command_line {

std::int32_t processors() {
  return static_cast<std::int32_t>(std::max(1u, std::thread::hardware_concurrency()));
}

struct flags::parser {
  CLI::App app;
};

flags::flags(const std::string& program, const std::string& purpose)
    : parser_(std::make_unique<parser>()) {
  CLI::App& app = parser_->app;
  app.name(program);
  app.description(program + " - " + purpose + "\n");
  app.set_help_flag("-h,--help", "this text");
  app.get_formatter()->column_width(24);
  app.get_formatter()->label("OPTIONS", "flags");
  app.get_formatter()->label("REQUIRED", "(needed)");
}

flags::~flags() = default;
flags::flags(flags&&) noexcept = default;

void flags::footer(const std::string& text) { parser_->app.footer(text); }

void flags::add(const std::string& flag, const std::string& value, const std::string& help,
                std::function<void(const std::string&)> take) {
  const auto read = [take = std::move(take)](const CLI::results_t& given) {
    take(given.front());
    return true;
  };
  parser_->app.add_option(flag, read, help)->type_name(value)->group(section_);
}

void flags::add(const std::string& flag, const std::string& help, bool& to) {
  parser_->app.add_flag(flag, to, help)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw)
      ->disable_flag_override()
      ->group(section_);
}

void flags::require(const std::string& flag) { parser_->app.get_option(flag)->required(); }

std::set<std::string> flags::parse(const std::vector<std::string>& words) {
  CLI::App& app = parser_->app;
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    throw help_wanted{app.help()};
  } catch (const CLI::Error& error) {
    throw usage_error(error.what() + std::string("; --help lists the flags"));
  }
  std::set<std::string> given;
  for (const CLI::Option* option : app.parse_order()) { given.insert(option->get_name()); }
  return given;
}

}  // namespace command_line
