// SPDX-License-Identifier: Apache-2.0
#include "heads.hpp"

#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <hunch/core/types.hpp>
#include <hunch/selector/clustered.hpp>
#include <hunch/selector/frequency.hpp>
#include <hunch/tools/frequency_ranking.hpp>
#include <hunch/tools/layout_file.hpp>
#include <hunch/vocab/budget.hpp>

#include "vocabulary.hpp"

namespace llama_cpp {
namespace {

/// The number behind `prefix`, or 0 for another name.
std::int32_t rows_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) { return 0; }
  name.remove_prefix(prefix.size());
  std::int32_t rows = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rows);
  return error == std::errc() && end == name.data() + name.size() ? rows : 0;
}

hunch::vocab_layout ranking_of(const std::string& path, const weights& draft) {
  if (path.ends_with(".safetensors")) { return hunch::load_layout(path, made_for_head_of(draft)); }
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.empty()) { throw std::runtime_error(path + ": cannot be read, or is empty"); }
  // What ends a text, and the bytes that spell all others.
  std::vector<hunch::token> keep = ends_of(draft);
  for (hunch::token t = 0; t < draft.vocab_size(); ++t) {
    if (bytes_of(draft, t).size() == 1) { keep.push_back(t); }
  }
  return hunch::frequency_ranking(encode(draft, text), draft.vocab_size(), keep);
}

}  // namespace

draft_head head_of(const std::string& name, const head_files& files, const weights& draft) {
  draft_head out;
  if (name == "full") { return out; }
  if (const std::int32_t rows = rows_of(name, "frequency:"); rows > 0) {
    out.selector.emplace(hunch::selector::frequency<>{ranking_of(files.ranking, draft), rows});
    return out;
  }
  if (const std::int32_t rows = rows_of(name, "dynaspec:"); rows > 0) {
    const hunch::made_for head = made_for_head_of(draft);
    hunch::vocab_layout layout = hunch::load_layout(files.layout, head);
    const auto router = hunch::router::weights::load(files.router, layout, head, files.layout);
    if (router.inputs != draft.width()) {
      throw std::runtime_error(files.router + ": reads states of " + std::to_string(router.inputs) +
                               " numbers, and those of " + draft.path() + " have " +
                               std::to_string(draft.width()));
    }
    out.router = std::make_shared<hunch::router::quantised>(router);
    using budget = hunch::budget::per_row<hunch::budget::rows>;
    out.selector.emplace(hunch::selector::clustered{
        std::move(layout), out.router->view(),
        budget{{.most = std::numeric_limits<std::int32_t>::max(), .rows = rows}}});
    return out;
  }
  throw std::invalid_argument("'" + name +
                              "' is no head: it is full, frequency:N or dynaspec:N, N > 0");
}

}  // namespace llama_cpp
