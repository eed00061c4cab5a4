// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <hunch/core/bfloat16.hpp>
#include <hunch/core/float16.hpp>
#include <hunch/core/types.hpp>
#include <hunch/interop/engine_arrays.hpp>

namespace hunch_torch {

using maybe_tensor = std::optional<at::Tensor>;

/// The tensors of one call of an operator: checked, and turned into pointers. Messages begin with
/// the operator and name the argument.
class checked_call {
 public:
  /// \param first the argument whose device and shape the others must fit.
  checked_call(const char* op, const at::Tensor& first, const char* name, std::int64_t dimensions)
      : op_(op), first_(name), device_(first.device()) {
    has_dimensions(first, name, dimensions);
  }

  const at::Device& device() const { return device_; }

  void has_dimensions(const at::Tensor& t, const char* name, std::int64_t dimensions) const {
    TORCH_CHECK_VALUE(t.dim() == dimensions, "hunch::", op_, ": ", name, " must have ", dimensions,
                      " dimensions, it has the shape ", t.sizes());
  }

  /// An input that is read in place.
  template <class T>
  const T* in(const at::Tensor& t, const char* name, at::IntArrayRef shape) const {
    is_array<T>(t, name, shape);
    return static_cast<const T*>(t.const_data_ptr());
  }
  template <class T>
  const T* in(const maybe_tensor& t, const char* name, at::IntArrayRef shape) const {
    return t ? in<T>(*t, name, shape) : nullptr;
  }
  /// One that is also written.
  template <class T>
  T* in_out(const at::Tensor& t, const char* name, at::IntArrayRef shape) const {
    is_array<T>(t, name, shape);
    return static_cast<T*>(t.mutable_data_ptr());
  }

  /// Token ids of 32 or 64 bits.
  hunch::interop::id_array ids(const at::Tensor& t, const char* name, at::IntArrayRef shape) const {
    if (t.scalar_type() == at::kLong) { return in<std::int64_t>(t, name, shape); }
    return in<std::int32_t>(t, name, shape);
  }

  /// Rows that are contiguous but may lie apart, as those of a padded vocabulary do; all of them at
  /// one distance.
  template <class T>
  const T* in_rows(const at::Tensor& t, const char* name, at::IntArrayRef shape,
                   std::int64_t& stride) const {
    is_rows<T>(t, name, shape, stride);
    return static_cast<const T*>(t.const_data_ptr());
  }
  /// The same that are also written.
  template <class T>
  T* in_out_rows(const at::Tensor& t, const char* name, at::IntArrayRef shape,
                 std::int64_t& stride) const {
    is_rows<T>(t, name, shape, stride);
    return static_cast<T*>(t.mutable_data_ptr());
  }

  /// An output, from torch's allocator.
  template <class T>
  at::Tensor out(at::IntArrayRef shape) const {
    return at::empty(shape, options<T>());
  }
  template <class T>
  at::Tensor out(at::IntArrayRef shape, std::int64_t filled_with) const {
    return at::full(shape, filled_with, options<T>());
  }

  std::int32_t int32(std::int64_t n) const {
    TORCH_CHECK_VALUE(n <= std::numeric_limits<std::int32_t>::max(), "hunch::", op_, ": a size of ",
                      n, " does not fit 32 bits");
    return static_cast<std::int32_t>(n);
  }

  void at_least(std::int64_t n, const char* name, std::int64_t least) const {
    TORCH_CHECK_VALUE(n >= least, "hunch::", op_, ": ", name, " must be at least ", least,
                      ", it is ", n);
  }

  void at_most(std::int64_t n, const char* name, std::int64_t most) const {
    TORCH_CHECK_VALUE(n <= most, "hunch::", op_, ": ", name, " must be at most ", most, ", it is ",
                      n);
  }

  void in_unit_interval(double x, const char* name) const {
    TORCH_CHECK_VALUE(x >= 0.0 && x <= 1.0, "hunch::", op_, ": ", name,
                      " must be in [0, 1], it is ", x);
  }

  /// One group of arguments needs the other.
  void together(bool has_one, const char* one, bool has_other, const char* other) const {
    TORCH_CHECK_VALUE(!has_one || has_other, "hunch::", op_, ": ", one, " need ", other);
  }

  /// Randomness comes from one of two groups of arguments, which is given whole.
  void one_of(bool all_keys, bool some_keys, const char* keys, bool all_uniforms,
              bool some_uniforms, const char* uniforms) const {
    TORCH_CHECK_VALUE((all_keys && !some_uniforms) || (all_uniforms && !some_keys), "hunch::", op_,
                      ": give either ", keys, ", or ", uniforms);
  }

 private:
  template <class T>
  static at::ScalarType type() {
    if constexpr (std::is_same_v<T, hunch::bfloat16>) {
      return at::kBFloat16;
    } else if constexpr (std::is_same_v<T, hunch::float16>) {
      return at::kHalf;
    } else if constexpr (std::is_same_v<T, std::uint32_t>) {
      return at::kInt;  // torch has no arithmetic on unsigned integers; bits are bits
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      return at::kLong;
    } else {
      return c10::CppTypeToScalarType<T>::value;
    }
  }
  template <class T>
  at::TensorOptions options() const {
    return at::TensorOptions().dtype(type<T>()).device(device_);
  }

  template <class T>
  void is_here(const at::Tensor& t, const char* name) const {
    TORCH_CHECK_VALUE(t.device() == device_, "hunch::", op_, ": ", name, " is on ", t.device(),
                      ", but ", first_, " is on ", device_);
    TORCH_CHECK_TYPE(t.scalar_type() == type<T>(), "hunch::", op_, ": ", name, " must be ",
                     type<T>(), ", it is ", t.scalar_type());
  }

  void has_shape(const at::Tensor& t, const char* name, at::IntArrayRef shape) const {
    TORCH_CHECK_VALUE(t.sizes() == shape, "hunch::", op_, ": ", name, " must have the shape ",
                      shape, ", it has ", t.sizes());
  }
  template <class T>
  void is_array(const at::Tensor& t, const char* name, at::IntArrayRef shape) const {
    is_here<T>(t, name);
    has_shape(t, name, shape);
    TORCH_CHECK_VALUE(t.is_contiguous(), "hunch::", op_, ": ", name, " must be contiguous");
  }
  template <class T>
  void is_rows(const at::Tensor& t, const char* name, at::IntArrayRef shape,
               std::int64_t& stride) const {
    is_here<T>(t, name);
    has_shape(t, name, shape);
    const std::int64_t last = t.dim() - 1;
    // Of a dimension of one element, and of a tensor without any, strides mean nothing.
    bool is_apart = t.numel() == 0 || t.size(last) <= 1 || t.stride(last) == 1;
    stride = t.size(last);
    std::int64_t rows = 1;
    for (std::int64_t d = last - 1; d >= 0 && t.numel() > 0; --d) {
      if (t.size(d) > 1) {
        if (rows == 1) { stride = t.stride(d); }
        is_apart = is_apart && t.stride(d) == rows * stride;
      }
      rows *= t.size(d);
    }
    TORCH_CHECK_VALUE(is_apart && stride >= t.size(last), "hunch::", op_, ": the rows of ", name,
                      " must be contiguous, at one distance, and must not overlap");
  }

  const char* op_;
  const char* first_;
  at::Device device_;
};

/// Statuses are bytes to torch; 0 is `status::ok`.
inline hunch::status* status_of(at::Tensor& t) {
  return reinterpret_cast<hunch::status*>(t.mutable_data_ptr<std::uint8_t>());
}

}  // namespace hunch_torch
