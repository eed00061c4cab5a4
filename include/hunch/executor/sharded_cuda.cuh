// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <cuda_runtime.h>

#include <hunch/collective/collective.hpp>
#include <hunch/collective/peer_memory.hpp>
#include <hunch/collective/vocab_shards.hpp>
#include <hunch/core/message.hpp>
#include <hunch/executor/cuda.cuh>
#include <hunch/executor/cuda_error.cuh>
#include <hunch/executor/detail/shard_kernel.cuh>
#include <hunch/executor/executor.hpp>
#include <hunch/team/mailboxes.hpp>
#include <hunch/team/over_row.hpp>

namespace hunch::executor {

/// Runs the bodies of one rank of several on its device, among which the rows of the vocabulary are
/// divided. All ranks run the same steps. A body that reads such rows, which says so by `static
/// constexpr bool spans_ranks = true`, gets a `team::sharded` of a block, which exchanges with
/// those of the other ranks while it runs; see `team::mailboxes`. All others run as those of
/// `cuda`. Exchanges need no host: steps are recorded and repeated as on one device.
///
/// Blocks that wait for blocks of other devices do not wait for ever:
///
/// - Block i waits for blocks i of the same launch only, and these come to the same exchanges in
///   the same order.
/// - A launch has no more blocks than the smallest device has multiprocessors; larger ones are
///   several. Each multiprocessor has room for one. So all of them are on the device as soon as
///   what else is there has ended, and nothing else there waits for another device in between: such
///   launches are made on one stream, `fork` is this executor. What else waits for other devices,
///   as the collectives of a model do, is to be on this stream, too, or ordered with it in the same
///   way on all ranks.
///
/// A rank that fails leaves the others waiting. After `patience` their bodies end, those of later
/// launches at once, and a loop that the device repeats with the step; what bodies have made is not
/// to be read. The next call that waits for the device throws a `collective_error` with the rank
/// that was silent. Then this executor is of no use any more. Nobody looks whether all ranks are at
/// the same place of the same step.
///
/// Copies share what they exchange; the last one ends, on all ranks, when nothing runs any more.
class sharded_cuda : public cuda {
 public:
  static constexpr bool spans_ranks = true;

  /// By all ranks. \param collective is used here only. \param patience that a body has with other
  /// ranks; what they do between two launches counts.
  template <collective::SharesMemory C>
  sharded_cuda(C& collective, const vocab_shards& shards, const cuda& on = cuda(),
               std::chrono::milliseconds patience = std::chrono::seconds(30))
      : cuda(on), ranks_(std::make_shared<ranks>(*this, collective, shards, patience)) {}

  /// As `cuda::launch`.
  template <class Body>
  void launch(std::int32_t count, const Body& body) {
    if constexpr (team::spans_ranks<Body>) {
      static_assert(std::is_trivially_copyable_v<Body>, "hunch: a body is copied to the device");
      static_cast<void>(&detail::is_known_sharded<Body>);
      const auto& limits = limits_of(detail::run_sharded_body<Body>);
      const std::int32_t most = ranks_->boxes;
      for (std::int32_t first = 0; first < count; first += most) {
        launch_as(detail::run_sharded_body<Body>, std::min(most, count - first), 1, limits, body,
                  ranks_->view, first);
      }
    } else {
      cuda::launch(count, body);
    }
  }

  sharded_cuda& fork() { return *this; }
  void join() noexcept {}

  void synchronize() {
    cuda::synchronize();
    ranks_->require_all();
  }
  template <class T>
  void upload(T* to, const T* from, std::size_t n) {
    cuda::upload(to, from, n);
    ranks_->require_all();
  }
  template <class T>
  void download(T* to, const T* from, std::size_t n) {
    cuda::download(to, from, n);
    ranks_->require_all();
  }
  template <class Step>
  void repeat(std::uint64_t shape, Step&& step, std::int32_t* again) {
    cuda::repeat(
        shape,
        [&](const auto& condition) {
          step(detail::unless_broken<std::remove_cvref_t<decltype(condition)>>{
              condition, ranks_->view.boxes.broken});
        },
        again);
  }

 private:
  struct ranks {
    template <class C>
    ranks(cuda& on, C& collective, const vocab_shards& shards, std::chrono::milliseconds patience)
        : stream(on.stream()),
          boxes(multiprocessors_of_all(collective)),
          memory(collective.share(team::mailboxes::words(shards.ranks(), boxes) *
                                  sizeof(std::uint64_t))),
          reach(on, static_cast<std::size_t>(shards.ranks())),
          messages(on, team::mailboxes::message_words(shards.ranks(), boxes)),
          rounds(on, static_cast<std::size_t>(boxes)),
          broken(on, 1),
          reported(on, 1),
          first_tile(on, static_cast<std::size_t>(shards.ranks()) + 1) {
      if (patience <= patience.zero()) {
        refusal{"hunch::executor::sharded_cuda"}({"no patience with other ranks"});
      }
      // A message has two words for each tile, and a few for the nodes of a tree.
      const std::int32_t tiles = shards.tiles().most_tiles;
      constexpr std::int32_t most = (team::mailboxes::most_words - team::list_capacity) / 2;
      if (tiles > most) {
        refusal{"hunch::executor::sharded_cuda"}(
            {"a rank has ", tiles, " tiles of a row, and messages have room for ", most});
      }
      const std::int32_t count = shards.ranks();
      std::vector<std::uint64_t*> found;
      for (std::int32_t r = 0; r < count; ++r) {
        found.push_back(static_cast<std::uint64_t*>(memory->of(r)));
      }
      on.upload(reach.data(), found.data(), found.size());
      view.rows = shards.tiles();
      on.upload(first_tile.data(), view.rows.first_tile, first_tile.size());
      view.rows.first_tile = first_tile.data();
      const std::chrono::nanoseconds time = patience;
      view.boxes = {.of_ranks = reach.data(),
                    .rounds = rounds.data(),
                    .messages = messages.data(),
                    .ranks = count,
                    .rank = shards.rank(),
                    .patience = static_cast<std::uint64_t>(time.count()),
                    .broken = broken.data(),
                    .reported = reported.data()};
    }
    ranks(const ranks&) = delete;
    ranks& operator=(const ranks&) = delete;
    ~ranks() { cudaStreamSynchronize(stream); }

    void require_all() const {
      const std::uint64_t report = *reported.data();
      if (report == 0) { return; }
      throw collective_error(
          "hunch::executor::sharded_cuda", collective_error::reason::silent,
          team::mailboxes::silent_rank_of(report),
          message({"block ", team::mailboxes::box_of(report), " has waited for it"}));
    }

    cudaStream_t stream;
    std::int32_t boxes;
    std::shared_ptr<const collective::peer_memory> memory;
    resident<std::uint64_t*> reach;
    resident<std::uint64_t> messages;
    resident<std::uint32_t> rounds;
    resident<std::uint64_t> broken;
    buffer<std::uint64_t> reported;
    resident<std::int32_t> first_tile;
    detail::shard_view view;
  };

  template <class C>
  static std::int32_t multiprocessors_of_all(C& collective) {
    int device = 0;
    std::int32_t count = 0;
    detail::check(cudaGetDevice(&device), "cudaGetDevice");
    detail::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                  "cudaDeviceGetAttribute");
    all_reduce(collective, &count, 1, [](std::int32_t a, std::int32_t b) { return a < b ? a : b; });
    return count;
  }

  std::shared_ptr<ranks> ranks_;
};

static_assert(ResidentExecutor<sharded_cuda>);

}  // namespace hunch::executor
