// SPDX-License-Identifier: Apache-2.0

// Any bytes are a layout or a router of what they say, or are refused.

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include <hunch/tools/layout_file.hpp>
#include <hunch/tools/router_weights.hpp>
#include "bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hunch::test::must;
  // Most inputs are a header whose length is right, and small integers after it.
  std::string file(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[0] == '{') {
    const std::uint64_t length = size;
    std::string prefix(sizeof length, '\0');
    std::memcpy(prefix.data(), &length, sizeof length);
    file = prefix + file;
    for (std::int32_t i = 0; i < 40; ++i) {
      const std::int32_t value = i < 8 ? i * 3 % 8 : i % 9;
      file.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  const hunch::made_for head{8, 0x11, 0x22, "the head"};
  const std::string vocabulary = hunch::fingerprint_text(head.vocabulary);
  const std::string of_head = hunch::fingerprint_text(head.head);
  try {
    const hunch::tensor_file read = hunch::tensor_file::parse(file, "input");
    const hunch::vocab_layout layout = hunch::load_layout(read, head);
    const std::string& v = read.about.at("vocabulary");
    const std::string& h = read.about.at("head");
    must(v == vocabulary || h == of_head, "loaded because something is known to fit");
    must(v == vocabulary || v == hunch::fingerprint_text(0), "another vocabulary");
    must(h == of_head || h == hunch::fingerprint_text(0), "another head");
    must(layout.vocab_size() == 8 && layout.head_rows() <= 8, "a layout of the vocabulary");
    if (layout.clusters() == 0) { return 0; }
    const auto router = hunch::router::weights::load(read, layout, head);
    must(router.clusters > 0 && router.inputs > 0 && router.width > 0, "sizes of a router");
    must(read.about.at("layout") == hunch::fingerprint_text(layout.fingerprint()), "its layout");
  } catch (const std::runtime_error&) {
  } catch (const std::invalid_argument&) {}
  return 0;
}
