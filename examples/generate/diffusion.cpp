// SPDX-License-Identifier: Apache-2.0
#include "generate/diffusion.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

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
  o.threads = a.threads > 0 ? a.threads : default_threads();
  return o;
}

/// Fills canvases in rounds that the host drives.
/// \tparam Drafts where drafts come from: a `diffusion::DraftPolicy`.
template <class Drafts>
class stepped_canvases {
 public:
  stepped_canvases(const canvas_session& session, engine::masked_model& model, Drafts drafts)
      : session_(session),
        decoder_{model, diffusion::order::confidence{}, canvas_sampler{},
                 diffusion::verifier::stepwise_exact{}, std::move(drafts)} {}

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
  diffusion::decoder<engine::masked_model&, diffusion::order::confidence, canvas_sampler,
                     diffusion::verifier::stepwise_exact, Drafts>
      decoder_;
};

}  // namespace

void run_diffusion(const arguments& a) {
  auto model = engine::masked_model::load(a.model, options(a));
  canvas_session session(a, model.shape(), model.max_positions());
  if (a.draft.empty()) {
    session.run(stepped_canvases(session, model, diffusion::self_speculation<max_draft_length>{}));
    return;
  }
  auto head = engine::canvas_head::load(a.draft, a.model, model, options(a));
  session.run(stepped_canvases(session, model, diffusion::drafted_by<max_draft_length>(head)));
}

}  // namespace generate
