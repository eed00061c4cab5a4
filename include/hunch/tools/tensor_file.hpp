// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>

namespace hunch {

static_assert(std::endian::native == std::endian::little,
              "hunch: tensors are stored as they lie in memory, the least significant byte first");

/// A small safetensors file, held in memory: what the library itself saves and loads. Tensors of
/// float and std::int32_t by name, and a few words about them. (Models are read by your engine.)
class tensor_file {
 public:
  /// Of a file that is read: it is held in memory.
  static constexpr std::uintmax_t max_bytes = std::uintmax_t{1} << 31;

  std::map<std::string, std::string> about;  ///< the "__metadata__" of the format

  /// Takes the place of a tensor of the same name. T: float or std::int32_t.
  /// \param shape its product is the number of values: not checked here, but by `parse`.
  template <class T>
  void put(const std::string& name, std::vector<std::int64_t> shape, const std::vector<T>& values) {
    tensor t{type_of<T>(), std::move(shape), {}};
    t.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) { std::memcpy(t.bytes.data(), values.data(), t.bytes.size()); }
    tensors_.insert_or_assign(name, std::move(t));
  }

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }

  /// The values of a tensor, and its shape if `shape` is given.
  /// \throws std::runtime_error if there is none of that name and type.
  template <class T>
  std::vector<T> get(const std::string& name, std::vector<std::int64_t>* shape = nullptr) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) { fail("has no tensor '" + name + "'"); }
    const tensor& t = found->second;
    if (t.type != type_of<T>()) { fail("'" + name + "' is " + t.type + ", not " + type_of<T>()); }
    std::vector<T> values(t.bytes.size() / sizeof(T));
    if (!values.empty()) { std::memcpy(values.data(), t.bytes.data(), t.bytes.size()); }
    if (shape != nullptr) { *shape = t.shape; }
    return values;
  }

  /// Replaces a file that is there.
  /// \throws std::runtime_error if it cannot be written, or a name or word has a control character.
  void write(const std::filesystem::path& path) const {
    std::string header = "{";
    if (!about.empty()) {
      header += "\"__metadata__\":{";
      for (const auto& [key, value] : about) { header += quoted(key) + ":" + quoted(value) + ","; }
      header.back() = '}';
      header += ",";
    }
    std::size_t at = 0;
    for (const auto& [name, t] : tensors_) {
      header += quoted(name) + ":{\"dtype\":\"" + t.type + "\",\"shape\":[";
      for (const std::int64_t n : t.shape) { header += std::to_string(n) + ","; }
      if (!t.shape.empty()) { header.pop_back(); }
      header += "],\"data_offsets\":[" + std::to_string(at) + ",";
      at += t.bytes.size();
      header += std::to_string(at) + "]},";
    }
    if (header.back() == ',') { header.pop_back(); }
    header += "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::ofstream out(path, std::ios::binary);
    const auto length = static_cast<std::uint64_t>(header.size());
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const auto& [name, t] : tensors_) {
      out.write(reinterpret_cast<const char*>(t.bytes.data()),
                static_cast<std::streamsize>(t.bytes.size()));
    }
    if (!out.flush()) { throw std::runtime_error(message({path.string(), ": cannot be written"})); }
  }

  /// \throws std::runtime_error naming what is wrong with the file: it cannot be read, has more
  ///         than `max_bytes`, or is no safetensors file of the kind that `write` writes.
  static tensor_file read(const std::filesystem::path& path) {
    tensor_file out;  // for messages
    out.origin_ = path.string();
    std::error_code unknown;
    const std::uintmax_t size = std::filesystem::file_size(path, unknown);
    if (unknown || !std::filesystem::is_regular_file(path)) { out.fail("cannot be read"); }
    if (size > max_bytes) {
      out.fail("has " + std::to_string(size) + " bytes: it is no layout and no router");
    }
    std::ifstream in(path, std::ios::binary);
    if (!in) { out.fail("cannot be read"); }
    return parse(std::string(std::istreambuf_iterator<char>(in), {}), path.string());
  }

  /// The same of bytes in memory, which are copied. \param origin their name, for messages.
  static tensor_file parse(std::string_view all, std::string origin) {
    tensor_file out;
    out.origin_ = std::move(origin);
    std::uint64_t length = 0;
    if (all.size() < sizeof length) { out.fail("is too short for a safetensors file"); }
    std::memcpy(&length, all.data(), sizeof length);
    if (length > all.size() - sizeof length) { out.fail("its header reaches beyond the file"); }
    const std::string_view data = all.substr(sizeof length + length);
    scanner text{out, all.substr(sizeof length, length)};
    std::size_t taken = 0;
    text.object([&](const std::string& name) {
      if (name == "__metadata__") {
        text.object([&](const std::string& key) { out.about[key] = text.string(); });
        return;
      }
      tensor one = out.read_tensor(text, name, data);
      taken += one.bytes.size();
      // Or a small file could ask for any amount of memory.
      if (taken > data.size()) { out.fail("its tensors overlap"); }
      if (!out.tensors_.emplace(name, std::move(one)).second) {
        out.fail("'" + name + "' is there twice");
      }
    });
    return out;
  }

  /// \throws std::runtime_error that names the file, and `what` is wrong with it.
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(
        message({(origin_.empty() ? std::string("hunch::tensor_file") : origin_), ": ", what}));
  }

 private:
  struct tensor {
    std::string type;
    std::vector<std::int64_t> shape;
    std::vector<std::byte> bytes;
  };

  template <class T>
  static std::string type_of() {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, std::int32_t>,
                  "hunch: a tensor_file holds float and std::int32_t");
    return std::is_same_v<T, float> ? "F32" : "I32";
  }

  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') { out += '\\'; }
      if (static_cast<unsigned char>(c) < 0x20) {
        throw std::runtime_error("hunch::tensor_file: a control character in a name");
      }
      out += c;
    }
    return out + "\"";
  }

  /// What such a header is written in: JSON objects, strings and lists of integers.
  struct scanner {
    const tensor_file& of;
    std::string_view left;

    char next() {
      while (!left.empty() &&
             (left[0] == ' ' || left[0] == '\n' || left[0] == '\t' || left[0] == '\r')) {
        left.remove_prefix(1);
      }
      return left.empty() ? '\0' : left[0];
    }
    void expect(char c) {
      if (next() != c) { of.fail(std::string("bad header: expected '") + c + "'"); }
      left.remove_prefix(1);
    }
    /// Calls member() for what lies between brackets, separated by commas.
    template <class Member>
    void list(char open, char close, const Member& member) {
      expect(open);
      while (next() != close) {
        member();
        if (next() != close) {
          expect(',');
          if (next() == close) { of.fail("bad header: a comma too many"); }
        }
      }
      expect(close);
    }
    template <class Member>
    void object(const Member& member) {
      list('{', '}', [&] {
        const std::string key = string();
        expect(':');
        member(key);
      });
    }
    std::string string() {
      expect('"');
      std::string out;
      while (!left.empty() && left[0] != '"') {
        if (left[0] == '\\') {
          left.remove_prefix(1);
          if (left.empty() || (left[0] != '"' && left[0] != '\\' && left[0] != '/')) {
            of.fail("bad header: an escape that it does not need");
          }
        }
        out += left[0];
        left.remove_prefix(1);
      }
      expect('"');
      return out;
    }
    std::vector<std::int64_t> integers() {
      std::vector<std::int64_t> out;
      list('[', ']', [&] {
        next();
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), value);
        if (error != std::errc() || value < 0) { of.fail("bad header: a size is not a number"); }
        left.remove_prefix(static_cast<std::size_t>(end - left.data()));
        out.push_back(value);
      });
      return out;
    }
  };

  tensor read_tensor(scanner& text, const std::string& name, std::string_view data) const {
    tensor out;
    std::vector<std::int64_t> offsets;
    text.object([&](const std::string& key) {
      if (key == "dtype") {
        out.type = text.string();
      } else if (key == "shape") {
        out.shape = text.integers();
      } else if (key == "data_offsets") {
        offsets = text.integers();
      } else {
        fail("bad header: '" + key + "' of '" + name + "'");
      }
    });
    if (out.type != "F32" && out.type != "I32") { return out; }  // not for us: `get` will say so
    std::int64_t count = 1;
    for (const std::int64_t n : out.shape) {
      if (n != 0 && count > static_cast<std::int64_t>(data.size()) / n) {
        count = -1;
        break;
      }
      count *= n;
    }
    if (offsets.size() != 2 || offsets[0] > offsets[1] || count < 0 ||
        offsets[1] - offsets[0] != 4 * count ||
        offsets[1] > static_cast<std::int64_t>(data.size())) {
      fail("'" + name + "' does not lie inside the file, or is not as long as its shape");
    }
    const auto bytes = data.substr(static_cast<std::size_t>(offsets[0]),
                                   static_cast<std::size_t>(offsets[1] - offsets[0]));
    out.bytes.resize(bytes.size());
    if (!bytes.empty()) { std::memcpy(out.bytes.data(), bytes.data(), bytes.size()); }
    return out;
  }

  std::string origin_;
  std::map<std::string, tensor> tensors_;
};

}  // namespace hunch
