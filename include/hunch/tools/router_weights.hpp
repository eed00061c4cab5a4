// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hunch/core/message.hpp>
#include <hunch/selector/router.hpp>
#include <hunch/tools/made_for.hpp>
#include <hunch/tools/tensor_file.hpp>
#include <hunch/vocab/vocab_layout.hpp>

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
    return {.inputs = inputs,
            .width = width,
            .clusters = clusters,
            .first = room(width, inputs),
            .first_bias = room(width, 1),
            .second = room(clusters, width),
            .second_bias = room(clusters, 1)};
  }

  /// The router, for the host; these weights must outlive it. For a resident loop, upload them and
  /// make a `router::mlp` of what lies there.
  mlp<float> view() const {
    return {{.data = first.data(), .rows = width, .width = inputs},
            first_bias.data(),
            {.data = second.data(), .rows = clusters, .width = width},
            second_bias.data()};
  }

  /// Replaces a file that is there.
  /// \param layout whose clusters it scores; \param head that the layout is for.
  /// \throws std::invalid_argument for a layout of other clusters; std::runtime_error if the file
  ///         cannot be written.
  void save(const std::filesystem::path& path, const vocab_layout& layout,
            const made_for& head) const {
    if (layout.clusters() != clusters) {
      throw std::invalid_argument(
          message({"hunch::router::weights: ", path.string(), ": a router of ", clusters,
                   " clusters, and a layout of ", layout.clusters()}));
    }
    tensor_file file;
    file.about["format"] = "hunch.router";
    file.about["layout"] = fingerprint_text(layout.fingerprint());
    head.put(file);
    file.put("first", {width, inputs}, first);
    file.put("first_bias", {width}, first_bias);
    file.put("second", {clusters, width}, second);
    file.put("second_bias", {clusters}, second_bias);
    file.write(path);
  }

  /// \param layout whose clusters it is to score; \param head that the layout is for.
  /// \param layout_name of the layout, for messages.
  /// \throws std::runtime_error for a file that is no router, that has weights that are not finite,
  ///         or that is for another layout, head or vocabulary.
  static weights load(const std::filesystem::path& path, const vocab_layout& layout,
                      const made_for& head, const std::string& layout_name = "the layout") {
    return load(tensor_file::read(path), layout, head, layout_name);
  }
  /// The same from a file that was read.
  static weights load(const tensor_file& file, const vocab_layout& layout, const made_for& head,
                      const std::string& layout_name = "the layout") {
    constexpr std::int64_t max_side = 1 << 24;
    weights out;
    const auto matrix = [&](const char* name, std::int32_t& rows, std::int32_t& columns) {
      std::vector<std::int64_t> shape;
      std::vector<float> values = file.get<float>(name, &shape);
      if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); })) {
        file.fail(std::string("'") + name + "' has elements that are no numbers");
      }
      if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
        file.fail(std::string("'") + name + "' is not a matrix");
      }
      if (shape[0] > max_side || shape[1] > max_side) {
        file.fail(std::string("'") + name + "' is larger than any router");
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
    head.check(file);
    const auto of_layout = file.about.find("layout");
    if (of_layout == file.about.end()) {
      file.fail("does not say for which layout it was trained: train it anew");
    }
    if (of_layout->second != fingerprint_text(layout.fingerprint())) {
      file.fail("was trained for another layout, " + of_layout->second + "; that of " +
                layout_name + " is " + fingerprint_text(layout.fingerprint()) +
                ": train one for it");
    }
    return out;
  }
};

/// The same router in bytes, with a factor for each row: a quarter of the memory, which is what its
/// time is made of. Scores differ a little; any choice is exact.
class quantised {
 public:
  /// \param of not empty; copied.
  explicit quantised(const weights& of)
      : inputs_(of.inputs),
        first_(of.first, of.width),
        second_(of.second, of.clusters),
        first_bias_(of.first_bias),
        second_bias_(of.second_bias) {}

  /// The router, for the host; these weights must outlive it.
  mlp<std::int8_t> view() const {
    return {first_.view(inputs_), first_bias_.data(),
            second_.view(static_cast<std::int32_t>(first_bias_.size())), second_bias_.data()};
  }

 private:
  /// A row is its largest magnitude / 127 times integers.
  struct matrix {
    std::vector<std::int8_t> values;
    std::vector<float> scale;

    matrix(const std::vector<float>& from, std::int32_t rows)
        : values(from.size()), scale(static_cast<std::size_t>(rows)) {
      const std::size_t width = from.size() / scale.size();
      for (std::size_t r = 0; r < scale.size(); ++r) {
        const float* const row = from.data() + r * width;
        float largest = 0.0f;
        for (std::size_t k = 0; k < width; ++k) { largest = std::max(largest, std::abs(row[k])); }
        scale[r] = largest / 127.0f;
        for (std::size_t k = 0; k < width; ++k) {
          const float x = scale[r] > 0.0f ? std::round(row[k] / scale[r]) : 0.0f;
          values[r * width + k] = static_cast<std::int8_t>(x);
        }
      }
    }
    kernel::head_weights<std::int8_t> view(std::int32_t width) const {
      return {.data = values.data(),
              .rows = static_cast<std::int32_t>(scale.size()),
              .width = width,
              .row_scale = scale.data()};
    }
  };

  std::int32_t inputs_;
  matrix first_;
  matrix second_;
  std::vector<float> first_bias_;
  std::vector<float> second_bias_;
};

}  // namespace hunch::router
