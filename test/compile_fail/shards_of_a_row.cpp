// SPDX-License-Identifier: Apache-2.0
// expect: hunch: the rows of this target are those of one rank of several: give the decoder an
// expect: hunch: executor::sharded is for executors whose memory the host reads

#include <hunch/collective/none.hpp>
#include <hunch/executor/sharded.hpp>
#include <hunch/model/sharded_target.hpp>
#include "../support/hidden_host.hpp"
#include "models.hpp"

using namespace hunch;
using namespace compile_fail;

void compose(collective::none& world, const vocab_shards& shards) {
#if WRONG == 2
  using host = test::hidden_host;
#else
  using host = executor::host;
#endif
  executor::sharded<collective::none, host> ranks(world, shards);
  sharded_target part(target{}, world, shards);
#if WRONG == 1
  executor::host where;
#else
  auto& where = ranks;
#endif
  decoder d{part,
            hunch::drafter::none{},
            selector::full{4},
            sampled{},
            verifier::rejection{},
            decoder_options{},
            random_source<>{},
            where};
}
