// SPDX-License-Identifier: Apache-2.0
#include "node/capture/dirty_tracker.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "node/capture/pagemap.h"

namespace space::node::capture {
namespace {

class WriteProtectTracker final : public DirtyTracker {
 public:
  explicit WriteProtectTracker(const Target& target) : target_(target) {}
  [[nodiscard]] TrackerKind kind() const override { return TrackerKind::kWriteProtect; }
  [[nodiscard]] TrackerTraits traits() const override {
    return {.rearms_while_running = true, .rearms = true};
  }
  Result<PageRuns> collect_and_rearm() override { return scan_written(target_, buffer_, Rearm::kYes); }
  Result<PageRuns> peek() override { return scan_written(target_, buffer_, Rearm::kNo); }

 private:
  const Target& target_;
  ScanBuffer buffer_;
};

class SoftDirtyTracker final : public DirtyTracker {
 public:
  SoftDirtyTracker(const Target& target, os::Fd clear) : target_(target), clear_(std::move(clear)) {}
  [[nodiscard]] TrackerKind kind() const override { return TrackerKind::kSoftDirty; }
  [[nodiscard]] TrackerTraits traits() const override {
    return {.rearms_while_running = false, .rearms = true};
  }
  Result<PageRuns> collect_and_rearm() override {
    SPACE_TRY(PageRuns written, peek());
    ssize_t put = 0;
    do {
      put = ::pwrite(clear_.get(), "4", 1, 0);
    } while (put < 0 && errno == EINTR);
    if (put != 1) return target_.failure(errno, "clear the soft-dirty bits");
    return written;
  }
  Result<PageRuns> peek() override { return select_entries(target_, is_soft_dirty_entry); }

 private:
  const Target& target_;
  os::Fd clear_;
};

class PrivatePagesTracker final : public DirtyTracker {
 public:
  explicit PrivatePagesTracker(const Target& target) : target_(target) {}
  [[nodiscard]] TrackerKind kind() const override { return TrackerKind::kPrivatePages; }
  [[nodiscard]] TrackerTraits traits() const override { return {}; }
  Result<PageRuns> collect_and_rearm() override { return peek(); }
  Result<PageRuns> peek() override { return select_entries(target_, is_private_entry); }

 private:
  const Target& target_;
};

}  // namespace

std::string_view to_string(TrackerKind kind) {
  switch (kind) {
    case TrackerKind::kWriteProtect:
      return "write_protect";
    case TrackerKind::kSoftDirty:
      return "soft_dirty";
    case TrackerKind::kPrivatePages:
      return "private_pages";
  }
  return "unknown";
}

Result<std::unique_ptr<DirtyTracker>> open_tracker(TrackerKind kind, const Target& target) {
  switch (kind) {
    case TrackerKind::kWriteProtect: {
      auto tracker = std::make_unique<WriteProtectTracker>(target);
      SPACE_TRY(PageRuns now, tracker->peek());  // refused when the memory is not armed
      (void)now;
      return std::unique_ptr<DirtyTracker>(std::move(tracker));
    }
    case TrackerKind::kSoftDirty: {
      SPACE_TRY(os::Fd clear, target.open_proc("clear_refs", O_WRONLY));
      return std::unique_ptr<DirtyTracker>(std::make_unique<SoftDirtyTracker>(target, std::move(clear)));
    }
    case TrackerKind::kPrivatePages: {
      if (target.mapping() != MappingKind::kPrivateFile) {
        return make_error(
            Code::kFailedPrecondition, "capture.tracker",
            "the guest's memory is not a private mapping of a file, so untouched pages can't be told apart");
      }
      return std::unique_ptr<DirtyTracker>(std::make_unique<PrivatePagesTracker>(target));
    }
  }
  return make_error(Code::kInvalidArgument, "capture.tracker", "unknown tracker");
}

}  // namespace space::node::capture
