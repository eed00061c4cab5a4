// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <hunch/core/arithmetic.hpp>
#include <hunch/core/config.hpp>
#include <hunch/team/canonical.hpp>

/// \file
/// Messages between ranks that write to each other's memory: how a `team::sharded` exchanges them
/// where nobody can suspend bodies until all have said what they have to say.

namespace hunch::team {

/// Where bodies of all ranks leave messages for each other. A view.
///
/// A rank has a box for each body that runs at a time. Body i hears from the bodies i of the other
/// ranks alone; in its box each of them has a place, where a piece of a message fits. Half a word
/// lies there beside the number of the round in which it was sent, in 64 bits that are written and
/// read at once. So whoever waits for it looks there until it has that number: a message takes one
/// way over the wire, and nobody orders one word after another.
///
/// A box has two sides, which take turns. A rank writes to a side again two rounds later, when all
/// others have been heard in the round between: they had read it before.
///
/// All of this memory begins as 0, on all ranks before the first round. It keeps the numbers of
/// rounds, so that the next launch, or the same one replayed, goes on with them.
struct mailboxes {
  static constexpr std::int32_t piece = 256;                     ///< words sent in a round
  static constexpr std::int32_t most_words = 2 * list_capacity;  ///< of a message
  /// The last number of a round, an odd one. The next is 2: 0 is none, and 1 the first of all.
  static constexpr std::uint32_t last_round = 0xFFFFFFFFu;

  std::uint64_t* const* of_ranks = nullptr;  ///< [ranks] the boxes of each, as this rank has them
  std::uint32_t* rounds = nullptr;           ///< [boxes] the last one of each box of this rank
  std::uint64_t* messages = nullptr;         ///< [boxes][ranks + 1][most_words] long ones
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
  std::uint64_t patience = 0;  ///< nanoseconds that a body waits for another
  /// Set by a body that has waited too long, to a `report` of where: no body is run any more.
  std::uint64_t* broken = nullptr;
  std::uint64_t* reported = nullptr;  ///< the same for the host

  HUNCH_HOST_DEVICE static constexpr std::int64_t words_of_side(std::int32_t ranks) {
    return std::int64_t{2} * piece * ranks;
  }
  /// Of the boxes of a rank.
  static constexpr std::size_t words(std::int32_t ranks, std::int32_t boxes) {
    return static_cast<std::size_t>(2 * words_of_side(ranks) * boxes);
  }
  /// And of `messages`.
  static constexpr std::size_t message_words(std::int32_t ranks, std::int32_t boxes) {
    return static_cast<std::size_t>(std::int64_t{most_words} * (ranks + 1) * boxes);
  }
  /// The halves of word k from rank `from`, in a box of rank `of`.
  HUNCH_HOST_DEVICE std::uint64_t* place(std::int32_t of, std::int32_t box, std::uint32_t round,
                                         std::int32_t from, std::int32_t k) const {
    const std::int64_t side = std::int64_t{2} * box + (round & 1);
    return of_ranks[of] + side * words_of_side(ranks) + 2 * (std::int64_t{from} * piece + k);
  }

  /// Never 0.
  HUNCH_HOST_DEVICE static std::uint64_t report(std::int32_t box, std::int32_t silent_rank) {
    return static_cast<std::uint64_t>(box) << 32 | static_cast<std::uint32_t>(silent_rank + 1);
  }
  static std::int32_t box_of(std::uint64_t report) {
    return static_cast<std::int32_t>(report >> 32);
  }
  static std::int32_t silent_rank_of(std::uint64_t report) {
    return static_cast<std::int32_t>(report & 0xFFFFFFFFu) - 1;
  }
};

/// What the threads of a rank share for the messages of a body. Short ones lie here.
struct mailbox_storage {
  static constexpr std::int32_t sent_words = 128;
  static constexpr std::int32_t received_words = 512;

  std::uint64_t sent[sent_words];
  std::uint64_t received[received_words];
  std::uint32_t round;  ///< the last one
  std::int32_t silent;  ///< a rank that has said nothing in time, or -1
};

/// The link of a `sharded` team: messages through a box.
///
/// \tparam Access a thread of a rank, with `rank()`, `size()` and `sync()` of its team, and
/// `box()`,
///         which body it is. `put(to, a, b)` writes, and `get(from, a, b)` reads two words in
///         memory that other ranks reach, at an even place, each at once; `fence()` orders what all
///         ranks see. `await(ready, patience)` returns when ready() says so, or false when the time
///         is up; then all threads of the body call `leave()`, which ends it.
template <class Access>
class mailbox_link {
 public:
  /// By all threads of a rank, which share `shared`.
  HUNCH_HOST_DEVICE mailbox_link(Access thread, mailbox_storage& shared, const mailboxes& all)
      : thread_(thread), shared_(&shared), all_(&all) {
    if (thread.rank() == 0) {
      shared.round = all.rounds[thread.box()];
      shared.silent = -1;
    }
  }

  HUNCH_HOST_DEVICE std::uint64_t* outbox(std::int32_t words) {
    words_ = words;
    return message_of(thread_, *shared_, *all_, words).sent;
  }
  template <class T>
  HUNCH_HOST_DEVICE void exchange(T&, std::int32_t) {
    pass(thread_, *shared_, *all_, words_);
  }
  HUNCH_HOST_DEVICE const std::uint64_t* from(std::int32_t rank) const {
    return message_of(thread_, *shared_, *all_, words_).received + std::int64_t{rank} * words_;
  }

 private:
  struct message {
    std::uint64_t* sent;
    std::uint64_t* received;  ///< [ranks, words]
  };
  HUNCH_HOST_DEVICE static message message_of(Access thread, mailbox_storage& shared,
                                              const mailboxes& all, std::int32_t words) {
    if (words <= mailbox_storage::sent_words &&
        words * all.ranks <= mailbox_storage::received_words) {
      return {shared.sent, shared.received};
    }
    std::uint64_t* const sent =
        all.messages + std::int64_t{thread.box()} * (all.ranks + 1) * mailboxes::most_words;
    return {sent, sent + mailboxes::most_words};
  }

  HUNCH_APART HUNCH_HOST_DEVICE static void pass(Access thread, mailbox_storage& shared,
                                                 const mailboxes& all, std::int32_t words) {
    thread.sync();  // the message is complete, and those of the last exchange have been read
    const message of = message_of(thread, shared, all, words);
    std::uint32_t round = shared.round;
    HUNCH_ROLLED
    for (std::int32_t first = 0; first < words; first += mailboxes::piece) {
      const std::int32_t count = kernel::smaller(words - first, mailboxes::piece);
      round = round == mailboxes::last_round ? 2 : round + 1;
      send(thread, all, round, of.sent + first, count);
      receive(thread, all, round, {of.sent + first, of.received + first}, count, words,
              shared.silent);
      thread.sync();
      if (shared.silent >= 0) { end(thread, all, mailboxes::report(thread.box(), shared.silent)); }
      if (round >= mailboxes::last_round - 1) { forget(thread, all, round); }
    }
    if (thread.rank() == 0) { all.rounds[thread.box()] = shared.round = round; }
  }

  /// use(rank, k) for the words of a piece from or to each rank, spread over the threads.
  template <class Use>
  HUNCH_HOST_DEVICE static void for_words(Access thread, std::int32_t ranks, std::int32_t count,
                                          const Use& use) {
    HUNCH_ROLLED
    for (std::int32_t i = thread.rank(); i < count * ranks; i += thread.size()) {
      const std::int32_t rank = i / count;
      use(rank, i - rank * count);
    }
  }
  HUNCH_HOST_DEVICE static void send(Access thread, const mailboxes& all, std::uint32_t round,
                                     const std::uint64_t* words, std::int32_t count) {
    const std::uint64_t number = std::uint64_t{round} << 32;
    for_words(thread, all.ranks, count, [&](std::int32_t to, std::int32_t k) {
      if (to == all.rank) { return; }
      thread.put(all.place(to, thread.box(), round, all.rank, k), number | (words[k] & 0xFFFFFFFFu),
                 number | words[k] >> 32);
    });
  }
  HUNCH_HOST_DEVICE static void receive(Access thread, const mailboxes& all, std::uint32_t round,
                                        const message& of, std::int32_t count, std::int32_t apart,
                                        std::int32_t& silent) {
    for_words(thread, all.ranks, count, [&](std::int32_t from, std::int32_t k) {
      std::uint64_t word = of.sent[k];
      if (from != all.rank) {
        const std::uint64_t* const at = all.place(all.rank, thread.box(), round, from, k);
        std::uint64_t low = 0;
        std::uint64_t high = 0;
        const auto is_there = [&] {
          thread.get(at, low, high);
          return low >> 32 == round && high >> 32 == round;
        };
        if (!thread.await(is_there, all.patience)) { silent = from; }
        word = (low & 0xFFFFFFFFu) | high << 32;
      }
      of.received[std::int64_t{from} * apart + k] = word;
    });
  }
  HUNCH_HOST_DEVICE static void end(Access thread, const mailboxes& all, std::uint64_t report) {
    if (thread.rank() == 0) { *all.broken = *all.reported = report; }
    thread.leave();
  }
  /// Before the numbers of rounds come again nothing is left that has one of them.
  HUNCH_HOST_DEVICE static void forget(Access thread, const mailboxes& all, std::uint32_t round) {
    for_words(thread, all.ranks, mailboxes::piece, [&](std::int32_t from, std::int32_t k) {
      thread.put(all.place(all.rank, thread.box(), round, from, k), 0, 0);
    });
    thread.fence();
    thread.sync();
  }

  Access thread_;
  mailbox_storage* shared_;
  const mailboxes* all_;
  std::int32_t words_ = 0;
};

}  // namespace hunch::team
