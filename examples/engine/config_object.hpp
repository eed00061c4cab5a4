// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <engine/config.hpp>
#include <hunch/tools/fingerprints.hpp>

/// \file
/// What readers of `config.json` share.

namespace engine {

/// A JSON object that knows how to complain about its keys.
class config_object {
 public:
  config_object(const nlohmann::json& value, std::string where)
      : value_{value}, where_{std::move(where)} {
    if (!value_.is_object()) { throw std::runtime_error(where_ + ": not a JSON object"); }
  }

  /// What messages begin with.
  const std::string& where() const { return where_; }

  [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
    throw std::runtime_error(where_ + ": \"" + key + "\" " + why);
  }

  bool has(const std::string& key) const {
    const auto found = value_.find(key);
    return found != value_.end() && !found->is_null();
  }

  const nlohmann::json& at(const std::string& key) const {
    if (!has(key)) { refuse(key, "is missing"); }
    return value_.at(key);
  }

  /// No limit but that of the type.
  static constexpr int any = 0x7fffffff;

  /// An integer in [0, most].
  int integer(const std::string& key, int most) const {
    const nlohmann::json& v = at(key);
    if (!v.is_number_integer()) { refuse(key, "is not an integer"); }
    const auto wide = v.get<std::int64_t>();
    if (wide < 0 || wide > most) {
      refuse(key, "is " + v.dump() + ", out of range: 0 to " + std::to_string(most));
    }
    return static_cast<int>(wide);
  }
  int integer_or(const std::string& key, int otherwise, int most) const {
    return has(key) ? integer(key, most) : otherwise;
  }

  /// What `hunch::fingerprint_text` makes of one; 0 if it is not there.
  std::uint64_t fingerprint(const std::string& key) const {
    if (!has(key)) { return 0; }
    const std::optional<std::uint64_t> value = hunch::fingerprint_of_text(string(key));
    if (!value || *value == 0) { refuse(key, "is no fingerprint: \"0x\" and 16 digits"); }
    return *value;
  }

  double number(const std::string& key) const {
    const nlohmann::json& v = at(key);
    if (!v.is_number()) { refuse(key, "is not a number"); }
    return v.get<double>();
  }
  double number(const std::string& key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }

  bool boolean(const std::string& key) const {
    const nlohmann::json& v = at(key);
    if (!v.is_boolean()) { refuse(key, "is not a boolean"); }
    return v.get<bool>();
  }
  bool boolean(const std::string& key, bool otherwise) const {
    return has(key) ? boolean(key) : otherwise;
  }

  std::string string(const std::string& key) const {
    const nlohmann::json& v = at(key);
    if (!v.is_string()) { refuse(key, "is not a string"); }
    return v.get<std::string>();
  }

  config_object child(const std::string& key) const {
    return {at(key), where_ + ": \"" + key + "\""};
  }

 private:
  const nlohmann::json& value_;
  std::string where_;
};

/// A file, to be read. \param max_bytes  of one that is read at all
/// \throws std::runtime_error naming the file.
std::ifstream opened(const std::filesystem::path& file, std::uintmax_t max_bytes);

/// The JSON of a file, as `opened`. \throws std::runtime_error naming the file.
nlohmann::json parsed_json(const std::filesystem::path& file, std::uintmax_t max_bytes = 1 << 24);

/// The name of the architecture. \throws std::runtime_error unless it is one of `supported`.
std::string architecture_of(const config_object& o, const std::vector<std::string>& supported);

/// Reads what a Llama and those who took over its config call by the same names.
/// \param context where the config does not say how long it is; 0: it has to.
/// \throws std::runtime_error for another activation, and biases in the feed-forward part.
config read_llama_fields(const config_object& o, int context = 0);

/// The context of a Llama whose config does not say how long it is, as `transformers` has it.
inline constexpr int llama_context = 2048;

/// Ends the context with the window of layers that see one.
/// \param has_windows whether any do, in a Qwen by its "use_sliding_window", unless the config says
/// of each layer what it sees, as newer files do.
void end_with_window(const config_object& o, bool has_windows, config& out);

/// \throws std::runtime_error for biases in attention, and a window that is not the context.
void check_llama_attention(const config_object& o);

/// Reads what a Qwen2 says, which has biases of queries, keys and values without saying so.
/// \throws std::runtime_error like `read_llama_fields`, and where it says that it has none.
config read_qwen2_fields(const config_object& o);

/// Reads `eos_token_id`, a number or a list of them, if it is there.
std::vector<int> read_end_tokens(const config_object& o);

/// \throws std::runtime_error naming `file` for a shape that makes no model.
void check_shape(const config& shape, const std::filesystem::path& file);

}  // namespace engine
