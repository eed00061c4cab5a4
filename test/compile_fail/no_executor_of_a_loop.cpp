// SPDX-License-Identifier: Apache-2.0
// expect: hunch: a resident loop needs an executor that models hunch::ResidentExecutor
// expect: hunch: a resident loop needs an executor that models hunch::ResidentExecutor

#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

/// Runs bodies, but no loops.
struct runner {
  template <class T>
  struct buffer : executor::host::buffer<T> {
    buffer(runner& of, std::size_t n) : executor::host::buffer<T>(of.on, n) {}
  };
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    on.launch(count, body);
  }
  void synchronize() {}

  executor::host on;
};
static_assert(Executor<runner>);

/// Of the loop over texts, and of that over canvases.
#if defined(WRONG)
template <int Which>
using host = std::conditional_t<Which == WRONG, runner, executor::host>;
#else
template <int>
using host = executor::host;
#endif

void compose() {
  resident_decoder texts{target{},
                         hunch::drafter::none{},
                         selector::full{4},
                         sampled{},
                         verifier::rejection{},
                         resident_options{},
                         random_source<>{},
                         host<1>{}};
  diffusion::resident_decoder canvases{masked{},
                                       diffusion::order::confidence{},
                                       sampled{},
                                       diffusion::verifier::stepwise_exact{},
                                       diffusion::stepwise{},
                                       diffusion::resident_options{},
                                       random_source<>{},
                                       host<2>{}};
}
