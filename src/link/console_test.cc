// SPDX-License-Identifier: Apache-2.0
#include "link/console.h"

#include <gtest/gtest.h>

#include "link/event_hub.h"

namespace space::link {
namespace {

std::string pattern(std::uint64_t from, std::size_t size) {
  std::string text(size, 0);
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((from + i) * 31 % 251);
  return text;
}

TEST(ConsoleRing, KeepsTheNewestBytesByOffset) {
  ConsoleRing ring;
  std::uint64_t total = 0;
  // Sizes that don't divide the ring, until it has wrapped several times.
  for (std::size_t size = 1; total < 4 * kConsoleRingBytes; size = size * 7 % 50'021 + 1) {
    ring.append(as_bytes(pattern(total, size)));
    total += size;
  }
  EXPECT_EQ(ring.end(), total);
  EXPECT_EQ(ring.begin(), total - kConsoleRingBytes);
  std::uint64_t offset = 0;  // long gone
  Bytes all = ring.read(offset, kConsoleRingBytes);
  EXPECT_EQ(to_text(all), pattern(total - kConsoleRingBytes, kConsoleRingBytes));
  EXPECT_EQ(offset, total);
  EXPECT_TRUE(ring.read(offset, 10).empty());
  EXPECT_EQ(to_text(ring.tail(100)), pattern(total - 100, 100));
}

TEST(ConsoleRing, OneAppendLargerThanTheRing) {
  ConsoleRing ring;
  ring.append(as_bytes("old"));
  ring.append(as_bytes(pattern(3, 3 * kConsoleRingBytes + 17)));
  EXPECT_EQ(to_text(ring.tail(kConsoleRingBytes)), pattern(2 * kConsoleRingBytes + 20, kConsoleRingBytes));
}

TEST(ConsoleRing, AnEmptyRingHasNothing) {
  ConsoleRing ring;
  std::uint64_t offset = 5;
  EXPECT_TRUE(ring.read(offset, 10).empty());
  EXPECT_EQ(offset, 0U);
  EXPECT_TRUE(ring.tail(10).empty());
}

TEST(EventHub, AWatcherHoldsOneEventOfAKind) {
  async::Loop loop;
  EventHub hub;
  EventHub::Watcher watcher(loop.get_executor(), hub);
  SandboxId first(std::string(20, 'a'));
  SandboxId second(std::string(20, 'b'));
  for (int i = 0; i < 1000; ++i) hub.raise({first, linkapi::EventKind::BlockIoError, std::to_string(i)});
  hub.raise({first, linkapi::EventKind::GuestShutdown, ""});
  hub.raise({second, linkapi::EventKind::BlockIoError, "x"});
  std::vector<std::string> seen;
  boost::asio::co_spawn(
      loop,
      [](EventHub::Watcher& from, std::vector<std::string>& out) -> async::Task<void> {
        for (int i = 0; i < 3; ++i) {
          SandboxEvent event = co_await from.next();
          out.push_back(event.sandbox.str().substr(0, 1) + linkapi::EnumNameEventKind(event.kind) +
                        event.detail);
        }
      }(watcher, seen),
      [](std::exception_ptr) {});
  loop.run();
  EXPECT_EQ(seen, (std::vector<std::string>{"aBlockIoError999", "aGuestShutdown", "bBlockIoErrorx"}));
}

}  // namespace
}  // namespace space::link
