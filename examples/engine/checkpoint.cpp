// SPDX-License-Identifier: Apache-2.0
#include <engine/checkpoint.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <engine/mapped_file.hpp>

namespace engine {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw std::runtime_error(file + ": " + what);
}

[[noreturn]] void fail(const std::string& file, const std::string& tensor,
                       const std::string& what) {
  throw std::runtime_error(file + ": tensor \"" + tensor + "\" " + what);
}

std::string describe(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return out + "]";
}

std::optional<dtype> dtype_named(const std::string& name) {
  for (const dtype type :
       {dtype::f32, dtype::f16, dtype::bf16, dtype::i8, dtype::i32, dtype::i64, dtype::boolean}) {
    if (name == to_string(type)) { return type; }
  }
  return std::nullopt;
}

/// The bytes of a tensor, or nothing when the shape overflows or is negative.
std::optional<std::uint64_t> byte_count(dtype type, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = size_of(type);
  for (const std::int64_t extent : shape) {
    if (extent < 0) { return std::nullopt; }
    const auto e = static_cast<std::uint64_t>(extent);
    if (e != 0 && bytes > (std::uint64_t{1} << 62) / e) { return std::nullopt; }
    bytes *= e;
  }
  return bytes;
}

/// The files of a directory with one of these extensions, in the order of their names.
std::vector<std::filesystem::path> files_with(const std::filesystem::path& directory,
                                              const std::set<std::string>& extensions) {
  std::vector<std::filesystem::path> out;
  std::error_code unknown;  // then there are none
  for (const auto& file : std::filesystem::directory_iterator(directory, unknown)) {
    if (extensions.count(file.path().extension().string()) != 0) { out.push_back(file.path()); }
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The file of a directory without an index: "model.safetensors", or another if it is the only one,
/// as heads have it.
std::filesystem::path only_file_of(const std::filesystem::path& directory) {
  std::filesystem::path usual = directory / "model.safetensors";
  std::error_code unknown;
  if (std::filesystem::exists(usual, unknown)) { return usual; }
  const auto found = files_with(directory, {".safetensors"});
  if (found.size() == 1) { return found.front(); }
  if (found.size() > 1) {
    fail(directory.string(), "has " + found[0].filename().string() + " and " +
                                 found[1].filename().string() +
                                 ", and no model.safetensors.index.json that names its shards");
  }
  const auto pickled = files_with(directory, {".bin", ".pt", ".pth"});
  const auto whole = std::find_if(pickled.begin(), pickled.end(), [](const auto& file) {
    return file.filename().string().starts_with("pytorch_model");
  });
  if (!pickled.empty()) {
    const bool is_whole = whole != pickled.end();
    const std::string file = (is_whole ? *whole : pickled.front()).string();
    fail(file, "was pickled by PyTorch, and is not read: examples/recipes/convert.py --model " +
                   (is_whole ? directory.string() : file) + " --out DIR makes safetensors of it");
  }
  return usual;
}

std::vector<std::int64_t> read_integers(const json& list) {
  std::vector<std::int64_t> out;
  for (const json& value : list) {
    if (!value.is_number_integer()) { return {-1}; }
    out.push_back(value.get<std::int64_t>());
  }
  return out;
}

}  // namespace

checkpoint::checkpoint() = default;
checkpoint::checkpoint(checkpoint&&) noexcept = default;
checkpoint& checkpoint::operator=(checkpoint&&) noexcept = default;
checkpoint::~checkpoint() = default;

checkpoint checkpoint::open(const std::filesystem::path& source) {
  checkpoint out;
  out.origin_ = source.string();
  std::error_code unknown;  // then it cannot be opened either, which says why
  if (std::filesystem::is_regular_file(source, unknown)) {
    out.read_file(source);
    return out;
  }
  const std::filesystem::path& directory = source;
  const auto index_file = directory / "model.safetensors.index.json";
  if (!std::filesystem::exists(index_file, unknown)) {
    out.read_file(only_file_of(directory));
    return out;
  }

  std::ifstream in(index_file, std::ios::binary);
  json index;
  try {
    index = json::parse(in);
  } catch (const json::exception& error) {
    fail(index_file.string(), std::string("bad JSON: ") + error.what());
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    fail(index_file.string(), "\"weight_map\" is missing");
  }
  std::set<std::string> shards;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) { fail(index_file.string(), name, "is not mapped to a file name"); }
    const std::filesystem::path file = shard.get<std::string>();
    if (file.has_parent_path()) {
      fail(index_file.string(), name, "is mapped outside the directory: " + file.string());
    }
    if (!std::filesystem::exists(directory / file, unknown)) {
      fail(index_file.string(), name, "is in shard " + file.string() + ", which does not exist");
    }
    shards.insert(file.string());
  }
  for (const std::string& shard : shards) { out.read_file(directory / shard); }
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!out.has(name)) {
      fail(index_file.string(), name, "is not in shard " + shard.get<std::string>());
    }
  }
  return out;
}

void checkpoint::read_file(const std::filesystem::path& path) {
  const std::string file = path.string();
  files_.push_back(std::make_unique<mapped_file>(path));
  const mapped_file& mapping = *files_.back();
  if (mapping.size() < 8) { fail(file, "is too short for a safetensors header"); }
  std::uint64_t header_size = 0;
  for (int i = 7; i >= 0; --i) {
    header_size = header_size << 8 | std::to_integer<std::uint64_t>(mapping.data()[i]);
  }
  constexpr std::uint64_t max_header_bytes = 100'000'000;  // as the format's own reader has it
  if (header_size > max_header_bytes && header_size <= mapping.size() - 8) {
    fail(file, "its header of " + std::to_string(header_size) + " bytes is longer than any");
  }
  if (header_size > mapping.size() - 8) {
    fail(file, "its header of " + std::to_string(header_size) + " bytes reaches beyond the file");
  }
  const auto* text = reinterpret_cast<const char*>(mapping.data()) + 8;
  json header;
  try {
    header = json::parse(text, text + header_size);
  } catch (const json::exception& error) {
    fail(file, std::string("bad JSON in its header: ") + error.what());
  }
  if (!header.is_object()) { fail(file, "its header is not a JSON object"); }

  const std::byte* const data = mapping.data() + 8 + header_size;
  const std::uint64_t data_size = mapping.size() - 8 - header_size;
  std::vector<std::pair<std::pair<std::uint64_t, std::uint64_t>, std::string>> intervals;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") { continue; }
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
        !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
        !value["data_offsets"].is_array()) {
      fail(file, name, "lacks dtype, shape or data_offsets");
    }
    const auto type = dtype_named(value["dtype"].get<std::string>());
    if (!type) {
      fail(file, name,
           "has dtype " + value["dtype"].get<std::string>() +
               "; supported are F32, F16, BF16, I8, I32, I64 and BOOL");
    }
    const auto shape = read_integers(value["shape"]);
    const auto bytes = byte_count(*type, shape);
    if (!bytes) { fail(file, name, "has an impossible shape " + describe(shape)); }
    const auto offsets = read_integers(value["data_offsets"]);
    if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0]) {
      fail(file, name, "has bad data_offsets");
    }
    const auto begin = static_cast<std::uint64_t>(offsets[0]);
    const auto end = static_cast<std::uint64_t>(offsets[1]);
    if (end > data_size) {
      fail(file, name,
           "ends at byte " + std::to_string(end) + " of " + std::to_string(data_size) +
               "; the file is truncated");
    }
    if (end - begin != *bytes) {
      fail(file, name,
           "has " + std::to_string(end - begin) + " bytes, its shape " + describe(shape) +
               " needs " + std::to_string(*bytes));
    }
    if (has(name)) { fail(file, name, "is also in " + find(name).file); }
    if (begin != end) { intervals.push_back({{begin, end}, name}); }
    entries_[name] = {{*type, shape, data + begin}, file, name};
  }
  std::sort(intervals.begin(), intervals.end());
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    if (intervals[i].first.first < intervals[i - 1].first.second) {
      fail(file, intervals[i].second, "overlaps tensor \"" + intervals[i - 1].second + "\"");
    }
  }
}

void checkpoint::add(const std::string& name, dtype type, std::vector<std::int64_t> shape,
                     std::vector<std::byte> bytes) {
  const auto needed = byte_count(type, shape);
  if (!needed || *needed != bytes.size()) {
    throw std::invalid_argument("engine::checkpoint: tensor \"" + name + "\" has " +
                                std::to_string(bytes.size()) + " bytes for shape " +
                                describe(shape));
  }
  owned_.push_back(std::move(bytes));
  entries_[name] = {{type, std::move(shape), owned_.back().data()}, origin_, name};
}

void checkpoint::add_missing(checkpoint&& other, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (has(name)) { continue; }
    for (const std::string& part : {name, name + "_scale"}) {
      entries_.insert(other.entries_.extract(part));
    }
  }
  keep_files(std::move(other));
}

void checkpoint::replace(const std::string& name, checkpoint&& other, const std::string& of) {
  entries_.erase(name + "_scale");
  entries_.insert_or_assign(name, other.find(of));
  if (other.has(of + "_scale")) {
    entries_.insert_or_assign(name + "_scale", other.find(of + "_scale"));
  }
  keep_files(std::move(other));
}

void checkpoint::keep_files(checkpoint&& other) {
  std::move(other.files_.begin(), other.files_.end(), std::back_inserter(files_));
  std::move(other.owned_.begin(), other.owned_.end(), std::back_inserter(owned_));
}

const checkpoint::entry& checkpoint::find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) { fail(origin_, name, "is missing"); }
  return found->second;
}

const tensor_view& checkpoint::get(const std::string& name) const { return find(name).view; }

matrix_view checkpoint::matrix(const std::string& name, int rows, int columns) const {
  const entry& weights = find(name);
  if (weights.view.shape != std::vector<std::int64_t>{rows, columns}) {
    fail(weights.file, name,
         "has shape " + describe(weights.view.shape) + ", expected " + describe({rows, columns}));
  }
  if (!is_weight(weights.view.type)) {
    fail(weights.file, name,
         std::string("has dtype ") + to_string(weights.view.type) + ", expected weights");
  }
  matrix_view out{weights.view.type, rows, columns, weights.view.data, nullptr};
  if (out.type == dtype::i8) {
    const std::string scale_name = name + "_scale";
    const entry& scale = find(scale_name);
    if (scale.view.type != dtype::f32) {
      fail(scale.file, scale_name,
           std::string("has dtype ") + to_string(scale.view.type) + ", expected F32");
    }
    if (scale.view.shape != std::vector<std::int64_t>{rows} &&
        scale.view.shape != std::vector<std::int64_t>{rows, 1}) {
      fail(scale.file, scale_name,
           "has shape " + describe(scale.view.shape) + ", expected " + describe({rows}));
    }
    out.scale = scale.view.data;
  }
  return out;
}

int checkpoint::rows_of(const std::string& name) const {
  const auto& shape = get(name).shape;
  const std::int64_t rows = shape.empty() ? 0 : shape[0];
  if (rows < 1 || rows > 1 << 20) {
    throw std::runtime_error(origin() + ": tensor \"" + name + "\" has " + std::to_string(rows) +
                             " rows");
  }
  return static_cast<int>(rows);
}

std::vector<float> checkpoint::vector(const std::string& name, int size) const {
  const entry& values = find(name);
  if (values.view.shape != std::vector<std::int64_t>{size}) {
    fail(values.file, name,
         "has shape " + describe(values.view.shape) + ", expected " + describe({size}));
  }
  if (!is_float(values.view.type)) {
    fail(values.file, name,
         std::string("has dtype ") + to_string(values.view.type) + ", expected a float");
  }
  std::vector<float> out(static_cast<std::size_t>(size));
  matrix_view{values.view.type, 1, size, values.view.data, nullptr}.read_row(0, out.data());
  return out;
}

std::vector<std::int64_t> checkpoint::integers(const std::string& name) const {
  const entry& values = find(name);
  if (values.view.shape.size() != 1) {
    fail(values.file, name, "has shape " + describe(values.view.shape) + ", expected a list");
  }
  const auto count = static_cast<std::size_t>(values.view.shape[0]);
  std::vector<std::int64_t> out(count);
  if (values.view.type == dtype::i64) {
    std::memcpy(out.data(), values.view.data, count * sizeof(std::int64_t));
  } else if (values.view.type == dtype::i32) {
    std::vector<std::int32_t> narrow(count);
    std::memcpy(narrow.data(), values.view.data, count * sizeof(std::int32_t));
    std::copy(narrow.begin(), narrow.end(), out.begin());
  } else {
    fail(values.file, name,
         std::string("has dtype ") + to_string(values.view.type) + ", expected I64 or I32");
  }
  return out;
}

std::vector<std::string> checkpoint::names() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : entries_) { out.push_back(name); }
  return out;
}

void checkpoint::rename_prefix(const std::string& from, const std::string& to) {
  for (const std::string& name : names()) {
    if (!name.starts_with(from)) { continue; }
    const std::string renamed = to + name.substr(from.size());
    if (const auto other = entries_.find(renamed); other != entries_.end() && renamed != name) {
      fail(find(name).file, find(name).stored_name,
           "stands for the same as \"" + other->second.stored_name + "\"");
    }
    auto node = entries_.extract(name);
    node.key() = renamed;
    entries_.insert(std::move(node));
  }
}

void checkpoint::refuse_others(const std::set<std::string>& read, const std::string& why) const {
  constexpr std::string_view scale = "_scale";
  for (const auto& [name, value] : entries_) {
    std::string of = name;
    if (name.ends_with(scale)) {
      of.resize(name.size() - scale.size());
      const auto scaled = entries_.find(of);
      if (scaled == entries_.end() || scaled->second.view.type != dtype::i8) { of = name; }
    }
    if (read.count(of) == 0) {
      fail(value.file, value.stored_name, "is none that is read: " + why);
    }
  }
}

}  // namespace engine
