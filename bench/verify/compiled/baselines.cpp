// SPDX-License-Identifier: Apache-2.0
#include "baselines.hpp"

#include "../../read_once.hpp"

namespace bench {
namespace {

float read(const float* first, std::size_t count) { return read_once(first, count); }
baselines::chain_rule materialised(std::int32_t length, std::int32_t vocab) {
  return materialised_chain(length, vocab);
}
baselines::chain_rule naive(std::int32_t length, std::int32_t vocab) {
  return naive_chain(length, vocab);
}

}  // namespace

const baselines& all_baselines() {
  static const baselines all = [] {
    baselines out{false, false, false, read, materialised, naive};
#if defined(__OPTIMIZE__)
    out.optimised = true;
#endif
#if defined(__AVX2__)
    out.avx2 = true;
#endif
#if defined(__AVX512F__)
    out.avx512 = true;
#endif
    return out;
  }();
  return all;
}

}  // namespace bench
