// SPDX-License-Identifier: Apache-2.0
#include "variants.hpp"

#include <cstdio>
#include <cstdlib>

namespace bench {

void need(bool holds, const std::string& what) {
  if (holds) { return; }
  std::fprintf(stderr, "the bench is wrong: %s\n", what.c_str());
  std::exit(1);
}

namespace {

/// What the processor at hand has.
struct processor {
#if defined(__x86_64__) && defined(__GNUC__)
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = __builtin_cpu_supports("avx512f");
#else
  bool avx2 = false;
  bool avx512 = false;
#endif
};

template <class Library>
void check(const Library& library, const std::string& name, bool avx2, bool avx512) {
  need(library.optimised, name + " is not optimised");
  need(library.avx2 == avx2, name + (avx2 ? " lacks AVX2" : " has AVX2"));
  need(library.avx512 == avx512, name + (avx512 ? " lacks AVX-512" : " has AVX-512"));
}

}  // namespace

const std::vector<variant>& variants() {
  static const std::vector<variant> all = [] {
    const processor here;
    check(all_baselines(), "what is held against", here.avx2, here.avx512);
    check(operations_native(), "native", here.avx2, here.avx512);
    check(operations_plain(), "-O2", false, false);
    std::vector<variant> out{{"native", &operations_native()}, {"-O2", &operations_plain()}};
#if defined(HUNCH_BENCH_V3)
    const bool runs = here.avx2;
    if (runs) { check(operations_v3(), "x86-64-v3", true, false); }
    out.push_back({"x86-64-v3", runs ? &operations_v3() : nullptr});
#endif
    return out;
  }();
  return all;
}

void read_once(const float* first, std::size_t count) { all_baselines().read_once(first, count); }

void compared::say(report& out, const std::string& name, const timings& t,
                   std::optional<std::size_t> stream, const goals& wanted) const {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const variant& v = variants()[i];
    const bool clauses = i != 0 || name.find(", ", name.rfind(": ")) != std::string::npos;
    const std::string of = name + (i == 0 ? "" : ", " + v.name) + (clauses ? ", " : " ");
    if (v.run == nullptr) {
      out.not_run(of + "against native", "this processor has no AVX2");
      continue;
    }
    if (stream) {
      out.add(of + "against the stream", median_ratio(t[places_[i]], t[*stream]), "",
              wanted.against_stream);
    }
    if (i != 0) {
      out.add(of + "against native", median_ratio(t[places_[i]], t[places_[0]]), "",
              wanted.against_native);
    }
  }
}

}  // namespace bench
