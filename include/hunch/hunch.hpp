// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Everything that needs no CUDA compiler, but for the adapters in hunch/interop.

#include <hunch/concepts.hpp>
#include <hunch/decoder.hpp>
#include <hunch/draft_tree.hpp>
#include <hunch/drafter/autoregressive.hpp>
#include <hunch/drafter/none.hpp>
#include <hunch/executor/host.hpp>
#include <hunch/generation.hpp>
#include <hunch/given_uniforms.hpp>
#include <hunch/grammar.hpp>
#include <hunch/law.hpp>
#include <hunch/planner.hpp>
#include <hunch/random.hpp>
#include <hunch/resident_decoder.hpp>
#include <hunch/rows.hpp>
#include <hunch/sampler/allowed_tokens.hpp>
#include <hunch/sampler/bias.hpp>
#include <hunch/sampler/greedy.hpp>
#include <hunch/sampler/min_p.hpp>
#include <hunch/sampler/penalties.hpp>
#include <hunch/sampler/pipeline.hpp>
#include <hunch/sampler/temperature.hpp>
#include <hunch/sampler/top_k.hpp>
#include <hunch/sampler/top_p.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/selector/full.hpp>
#include <hunch/shortlist_head.hpp>
#include <hunch/statistics.hpp>
#include <hunch/tree/chain.hpp>
#include <hunch/types.hpp>
#include <hunch/verifier/block.hpp>
#include <hunch/verifier/coupled.hpp>
#include <hunch/verifier/greedy.hpp>
#include <hunch/verifier/point_mass.hpp>
#include <hunch/verifier/rejection.hpp>
#include <hunch/verifier/top_k.hpp>
#include <hunch/verifier/typical.hpp>
#include <hunch/vocab_layout.hpp>
