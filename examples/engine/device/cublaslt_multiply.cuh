// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cublasLt.h>

#include <engine/device/matrix.hpp>
#include <engine/device/weights.hpp>
#include <engine/into.hpp>
#include <hunch/core/bfloat16.hpp>
#include <hunch/executor/cuda.cuh>

namespace engine::device {

/// Matrix products by cuBLASLt, bfloat16 in and float out; a policy of products like
/// `team_multiply`. All rows are multiplied, whether they are asked for or not.
///
/// How a shape is multiplied is chosen in `prepare` and never afterwards, so that products can be
/// recorded. One algorithm that does not split the inner dimension serves every number of rows, so
/// that a row's result does not depend on how many rows there are. Nothing documents that it then
/// does not, so it is tried.
class cublaslt_multiply {
 public:
  using input = hunch::bfloat16;
  template <class Executor>
  using stored = bf16_matrix<Executor>;

  cublaslt_multiply(hunch::executor::cuda& executor, std::int32_t max_rows)
      : executor_(executor), max_rows_(max_rows), workspace_(executor_, workspace_bytes) {
    cublasLtHandle_t handle = nullptr;
    check(cublasLtCreate(&handle), "cublasLtCreate");
    handle_.reset(handle);
    cublasLtMatmulDesc_t description = nullptr;
    check(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    description_.reset(description);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                         sizeof transposed),
          "cublasLtMatmulDescSetAttribute");
  }

  void prepare(const matrix& w, into) {
    auto& plan = plans_[{w.outputs, w.width}];
    if (!plan.empty()) { return; }
    const chosen common = for_all_rows(w);
    for (std::int32_t rows = 1; rows <= max_rows_; ++rows) {
      plan.push_back(fits(w, rows, common) ? common : fastest(w, rows, 1).front());
    }
  }

  void operator()(const matrix& w, const hunch::bfloat16* x, std::int32_t rows, float* y, into mode,
                  const std::uint8_t*) {
    const chosen& how = plans_.at({w.outputs, w.width})[static_cast<std::size_t>(rows) - 1];
    multiply(w, x, rows, y, mode == into::add ? 1.0f : 0.0f, how);
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  /// Rows for which an algorithm is chosen: a draft of a request or of a few.
  static constexpr std::int32_t typical_rows = 16;
  static constexpr int most_tried = 32;

  /// Of rows behind others, which may be multiplied without these.
  static constexpr std::uint32_t row_alignment = 16;

  static void check(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw std::runtime_error(std::string("engine::device::cublaslt_multiply: ") + what + ": " +
                               cublasLtGetStatusString(status));
    }
  }

  /// The matrices of a product. Row-major y = x w^T is column-major y^T = w x^T.
  struct shape {
    shape(const matrix& w, std::int32_t rows) {
      check(cublasLtMatrixLayoutInit(&weights, CUDA_R_16BF, static_cast<std::uint64_t>(w.width),
                                     static_cast<std::uint64_t>(w.outputs), w.width),
            "cublasLtMatrixLayoutInit");
      check(cublasLtMatrixLayoutInit(&inputs, CUDA_R_16BF, static_cast<std::uint64_t>(w.width),
                                     static_cast<std::uint64_t>(rows), w.width),
            "cublasLtMatrixLayoutInit");
      check(cublasLtMatrixLayoutInit(&products, CUDA_R_32F, static_cast<std::uint64_t>(w.outputs),
                                     static_cast<std::uint64_t>(rows), w.outputs),
            "cublasLtMatrixLayoutInit");
    }
    cublasLtMatrixLayoutOpaque_t weights, inputs, products;
  };

  /// A type with a name, which nvcc 13 wants of the elements of a vector.
  struct chosen {
    cublasLtMatmulAlgo_t algorithm;
  };

  /// Whether the algorithm multiplies so many rows.
  bool fits(const matrix& w, std::int32_t rows, const chosen& how) {
    shape of(w, rows);
    cublasLtMatmulHeuristicResult_t found{};
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle_.get(), description_.get(), &of.weights, &of.inputs,
                                &of.products, &of.products, &how.algorithm, &found);
    return status == CUBLAS_STATUS_SUCCESS && found.state == CUBLAS_STATUS_SUCCESS &&
           found.workspaceSize <= workspace_bytes;
  }

  void multiply(const matrix& w, const hunch::bfloat16* x, std::int32_t rows, float* y, float beta,
                const chosen& how) {
    shape of(w, rows);
    const float one = 1.0f;
    check(cublasLtMatmul(handle_.get(), description_.get(), &one, w.data, &of.weights, x,
                         &of.inputs, &beta, y, &of.products, y, &of.products, &how.algorithm,
                         workspace_.data(), workspace_bytes, executor_.stream()),
          "cublasLtMatmul");
  }

  /// Of the algorithms that multiply any number of rows the first by which a row has the same
  /// result beside any number of others: in the order of their speed for a typical number, for one
  /// and for the most. If there is none, the first that multiplies any number; else the fastest.
  chosen for_all_rows(const matrix& w) {
    const std::int32_t typical = std::min(max_rows_, typical_rows);
    std::optional<chosen> fitting;
    for (const std::int32_t count : {typical, 1, max_rows_}) {
      for (const chosen& how : fastest(w, count, most_tried)) {
        std::int32_t rows = 1;
        while (rows <= max_rows_ && fits(w, rows, how)) { ++rows; }
        if (rows <= max_rows_) { continue; }
        if (is_same_among_others(w, how)) { return how; }
        if (!fitting) { fitting = how; }
      }
    }
    return fitting ? *fitting : fastest(w, typical, 1).front();
  }

  /// Whether the first of some rows has the same product beside 0, 1, 2, ... others.
  bool is_same_among_others(const matrix& w, const chosen& how) {
    const auto width = static_cast<std::size_t>(w.width);
    const auto outputs = static_cast<std::size_t>(w.outputs);
    std::vector<hunch::bfloat16> numbers(static_cast<std::size_t>(max_rows_) * width);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = hunch::to_bfloat16(static_cast<float>(i * 7919 % 1013) * 0.001f - 0.5f);
    }
    hunch::executor::cuda::resident<hunch::bfloat16> x(executor_, numbers.size());
    hunch::executor::cuda::resident<float> y(executor_,
                                             static_cast<std::size_t>(max_rows_) * outputs);
    executor_.upload(x.data(), numbers.data(), numbers.size());
    std::vector<float> alone(outputs);
    std::vector<float> beside(outputs);
    for (std::int32_t rows = 1; rows <= max_rows_; rows += rows < typical_rows ? 1 : rows) {
      multiply(w, x.data(), rows, y.data(), 0.0f, how);
      executor_.download(beside.data(), y.data(), outputs);
      if (rows == 1) { alone = beside; }
      if (alone != beside) { return false; }
    }
    return true;
  }

  /// At most so many algorithms, `most_tried` of them or fewer, that which cuBLASLt takes for the
  /// fastest first.
  std::vector<chosen> fastest(const matrix& w, std::int32_t rows, int most) {
    shape of(w, rows);
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    const std::uint64_t workspace = workspace_bytes;
    const std::uint32_t whole_sums = CUBLASLT_REDUCTION_SCHEME_NONE;
    check(cublasLtMatmulPreferenceSetAttribute(
              &preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
          "cublasLtMatmulPreferenceSetAttribute");
    check(cublasLtMatmulPreferenceSetAttribute(&preference,
                                               CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                               &whole_sums, sizeof whole_sums),
          "cublasLtMatmulPreferenceSetAttribute");
    for (const cublasLtMatmulPreferenceAttributes_t of_rows :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, of_rows, &row_alignment,
                                                 sizeof row_alignment),
            "cublasLtMatmulPreferenceSetAttribute");
    }
    cublasLtMatmulHeuristicResult_t found[most_tried];
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(handle_.get(), description_.get(), &of.weights, &of.inputs,
                                         &of.products, &of.products, &preference, most, found,
                                         &count),
          "cublasLtMatmulAlgoGetHeuristic");
    std::vector<chosen> algorithms;
    for (int i = 0; i < count; ++i) {
      if (found[i].state == CUBLAS_STATUS_SUCCESS) { algorithms.push_back({found[i].algo}); }
    }
    if (algorithms.empty()) {
      throw std::runtime_error("engine::device::cublaslt_multiply: no algorithm for [" +
                               std::to_string(w.outputs) + ", " + std::to_string(w.width) + "]");
    }
    return algorithms;
  }

  struct destroy {
    void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
    void operator()(cublasLtMatmulDesc_t description) const {
      cublasLtMatmulDescDestroy(description);
    }
  };

  hunch::executor::cuda executor_;
  std::int32_t max_rows_;
  hunch::executor::cuda::resident<std::byte> workspace_;
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, destroy> handle_;
  std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>, destroy> description_;
  /// By outputs and width, one algorithm per number of rows.
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<chosen>> plans_;
};

}  // namespace engine::device
