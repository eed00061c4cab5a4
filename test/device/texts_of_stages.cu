// SPDX-License-Identifier: Apache-2.0
#include <hunch/verifier/rejection.hpp>
#include "device_checks.cuh"

namespace hunch::test {

namespace {

/// A loop is used again while requests come and go, so that recordings meet other data; and another
/// one, whose memory is elsewhere, shares its executor.
void same_shrinking_texts(device_checks& check) {
  const std::vector<run_request> requests = run_requests_of(run_kind::staged, 12);
  for (const executor::looping how : check.ways()) {
    check("a batch that shrinks, beside another loop" + name_of(how), [&] {
      return shrinking_texts(executor::cuda{how}, stages{}, verifier::rejection{}, requests) ==
             shrinking_texts(executor::host{}, stages{}, verifier::rejection{}, requests);
    });
  }
}

}  // namespace

void check_texts_of_stages(device_checks& check) {
  same_texts(check, "rejection with every stage", stages{}, verifier::rejection{},
             run_kind::staged);
  if (!check.brief) { same_shrinking_texts(check); }
}

}  // namespace hunch::test
