// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <hunch/layout/tensor_file.hpp>
#include <hunch/selector/router.hpp>

namespace hunch::router {

/// The weights of a `router::mlp` in memory of the host, and their file: safetensors with "first"
/// [width, inputs], "first_bias" [width], "second" [clusters, width] and "second_bias" [clusters].
struct weights {
  std::int32_t inputs = 0;
  std::int32_t width = 0;
  std::int32_t clusters = 0;
  std::vector<float> first;
  std::vector<float> first_bias;
  std::vector<float> second;
  std::vector<float> second_bias;

  /// Room for a router of these sizes, all zero.
  static weights sized(std::int32_t inputs, std::int32_t width, std::int32_t clusters) {
    const auto room = [](std::int32_t a, std::int32_t b) {
      return std::vector<float>(static_cast<std::size_t>(a) * static_cast<std::size_t>(b));
    };
    return {inputs,           width,
            clusters,         room(width, inputs),
            room(width, 1),   room(clusters, width),
            room(clusters, 1)};
  }

  /// The router; these weights must outlive it.
  mlp<float> view() const {
    return {{first.data(), width, inputs},
            first_bias.data(),
            {second.data(), clusters, width},
            second_bias.data()};
  }

  /// \throws std::runtime_error if the file cannot be written.
  void save(const std::filesystem::path& path) const {
    tensor_file file;
    file.about["format"] = "hunch.router";
    file.put("first", {width, inputs}, first);
    file.put("first_bias", {width}, first_bias);
    file.put("second", {clusters, width}, second);
    file.put("second_bias", {clusters}, second_bias);
    file.write(path);
  }

  /// \throws std::runtime_error for a file that is no router.
  static weights load(const std::filesystem::path& path) {
    const tensor_file file = tensor_file::read(path);
    weights out;
    const auto matrix = [&](const char* name, std::int32_t& rows, std::int32_t& columns) {
      std::vector<std::int64_t> shape;
      std::vector<float> values = file.get<float>(name, &shape);
      if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
        file.fail(std::string("'") + name + "' is not a matrix");
      }
      rows = static_cast<std::int32_t>(shape[0]);
      columns = static_cast<std::int32_t>(shape[1]);
      return values;
    };
    std::int32_t width_again = 0;
    out.first = matrix("first", out.width, out.inputs);
    out.second = matrix("second", out.clusters, width_again);
    out.first_bias = file.get<float>("first_bias");
    out.second_bias = file.get<float>("second_bias");
    if (width_again != out.width || out.first_bias.size() != static_cast<std::size_t>(out.width) ||
        out.second_bias.size() != static_cast<std::size_t>(out.clusters)) {
      file.fail("the two layers of the router do not fit each other");
    }
    return out;
  }
};

}  // namespace hunch::router
