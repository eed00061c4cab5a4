// SPDX-License-Identifier: Apache-2.0
#include "generate/diffusion.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include <engine/block_cached_model.hpp>
#include <engine/canvas_head.hpp>
#include <engine/masked_model.hpp>
#include <hunch/hunch.hpp>

#include "generate/canvas_session.hpp"
#include "generate/session.hpp"

namespace generate {
namespace {

using namespace hunch;

engine::model_options options(const arguments& a) {
  engine::model_options o;
  o.kind = engine::arithmetic_of(a.precision);
  o.threads = a.threads > 0 ? a.threads : default_threads();
  return o;
}

/// Fills canvases in rounds that the host drives.
/// \tparam Drafts where drafts come from: a `diffusion::DraftPolicy`.
template <class Model, class Rule, class Drafts>
class stepped_canvases {
 public:
  stepped_canvases(const canvas_session& session, Model& model, Rule rule, Drafts drafts)
      : session_(session),
        decoder_{model, diffusion::order::confidence{}, canvas_sampler{}, std::move(rule),
                 std::move(drafts)} {}

  void prepare(std::int32_t drafts) {
    decoder_.draft_length(drafts);
    decoder_.reset_stats();
  }

  void fill(const generation_options& request, filling_canvas& canvas, canvas_run& out) {
    decoder_.add(session_.prompt(), request, session_.canvas());
    while (decoder_.running() > 0) {
      for (const diffusion::emission& e : decoder_.step()) {
        for (std::size_t i = 0; i < e.unmaskings.size(); ++i) {
          canvas.unmask(e.unmaskings[i], e.origins[i]);
        }
        canvas.end(e.finish);
        canvas.show();
      }
    }
    count(decoder_.stats(), 1, out);
  }

 private:
  const canvas_session& session_;
  diffusion::decoder<Model&, diffusion::order::confidence, canvas_sampler, Rule, Drafts> decoder_;
};

/// By the rule that the flags ask for.
template <class Model, class Drafts>
void fill_by(const arguments& a, canvas_session& session, Model& model, Drafts drafts) {
  if (a.accepted_rank > 0) {
    const diffusion::verifier::top_k lossy{a.accepted_rank};
    return session.run(stepped_canvases(session, model, lossy, std::move(drafts)));
  }
  session.run(
      stepped_canvases(session, model, diffusion::verifier::stepwise_exact{}, std::move(drafts)));
}

/// With drafts of the model's own.
template <class Model>
void fill_by_itself(const arguments& a, Model model) {
  canvas_session session(a, model.shape(), model.max_positions());
  fill_by(a, session, model, diffusion::self_speculation<max_draft_length>{.spread = a.spread});
}

}  // namespace

void run_diffusion(const arguments& a) {
  if (a.block_cache != engine::block_cache::none) {
    return fill_by_itself(a, engine::block_cached_model::load(a.model, a.block_cache, options(a)));
  }
  auto model = engine::masked_model::load(a.model, options(a));
  if (a.draft.empty()) { return fill_by_itself(a, std::move(model)); }
  canvas_session session(a, model.shape(), model.max_positions());
  auto head = engine::canvas_head::load(a.draft, a.model, model, options(a));
  fill_by(a, session, model,
          diffusion::drafted_by<max_draft_length>(head, length::fixed{}, a.spread));
}

}  // namespace generate
