// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <hunch/core/types.hpp>

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
    is_here<T>(t, name);
    TORCH_CHECK_VALUE(t.sizes() == shape, "hunch::", op_, ": ", name, " must have the shape ",
                      shape, ", it has ", t.sizes());
    TORCH_CHECK_VALUE(t.is_contiguous(), "hunch::", op_, ": ", name, " must be contiguous");
    return t.const_data_ptr<T>();
  }
  template <class T>
  const T* in(const maybe_tensor& t, const char* name, at::IntArrayRef shape) const {
    return t ? in<T>(*t, name, shape) : nullptr;
  }

  /// A matrix whose rows are contiguous but may lie apart, as those of a padded vocabulary do.
  template <class T>
  const T* in_rows(const at::Tensor& t, const char* name, std::int64_t& stride) const {
    is_here<T>(t, name);
    stride = t.size(0) > 1 ? t.stride(0) : t.size(1);
    TORCH_CHECK_VALUE((t.size(1) <= 1 || t.stride(1) == 1) && stride >= t.size(1), "hunch::", op_,
                      ": the rows of ", name, " must be contiguous and must not overlap");
    return t.const_data_ptr<T>();
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

  void in_unit_interval(double x, const char* name) const {
    TORCH_CHECK_VALUE(x >= 0.0 && x <= 1.0, "hunch::", op_, ": ", name,
                      " must be in [0, 1], it is ", x);
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
    return c10::CppTypeToScalarType<T>::value;
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

  const char* op_;
  const char* first_;
  at::Device device_;
};

/// Statuses are bytes to torch; 0 is `status::ok`.
inline hunch::status* status_of(at::Tensor& t) {
  return reinterpret_cast<hunch::status*>(t.mutable_data_ptr<std::uint8_t>());
}

}  // namespace hunch_torch
