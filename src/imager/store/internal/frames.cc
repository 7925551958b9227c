// SPDX-License-Identifier: Apache-2.0
#include "imager/store/internal/frames.h"

#include <algorithm>
#include <tuple>

namespace space::imager::store {
namespace {

constexpr std::size_t kMaxRunBytes = 1u << 20;  // read in one piece
constexpr std::size_t kMaxGapBytes = 16u
                                     << 10;  // unwanted bytes between two frames that are read all the same
constexpr std::size_t kMaxPackKeys = 8192;
constexpr std::size_t kMaxOpeners = 16;

Error frame_error(Error cause, const TenantId& owner, const PackId& pack, std::uint32_t offset) {
  std::string object = pack_name(owner, pack);
  if (cause.reason == "blob.not_found")
    return make_error(Code::kDataLoss, "store.missing", object + " is missing");
  if (cause.code != Code::kDataLoss) return cause;
  return make_error(Code::kDataLoss, "store.corrupt",
                    fmt::format("{} at byte {}: {}", object, offset, cause.message));
}

}  // namespace

Result<std::shared_ptr<const Keys>> Access::keys(Realm realm) const {
  const auto& keys = realm == Realm::kOwn ? own : base;
  if (keys) return keys;
  if (base_error && base_error->code != Code::kNotFound) return *base_error;
  return make_error(Code::kDataLoss, "store.missing", ring_name(kBaseTenant) + " is missing");
}

Result<ByteView> Frame::content(const Keys& keys, Domain domain, std::size_t slot, std::size_t slot_bytes,
                                const ContentId& id) const {
  auto malformed = [](const char* why) { return make_error(Code::kDataLoss, "store.malformed", why); };
  if ((slot + 1) * slot_bytes > plain_.size())
    return malformed("frame has fewer contents than its reference says");
  ByteView view = plain();
  view = view.subspan(slot * slot_bytes, slot_bytes);
  std::unique_lock lock(mutex_);
  if (ids_.size() <= slot) ids_.resize(slot + 1);
  if (!ids_[slot].first) {
    lock.unlock();
    ContentId computed = content_id(keys, domain, view);
    lock.lock();
    ids_[slot] = {true, computed};
  }
  if (ids_[slot].second != id) return malformed("content doesn't match its id");
  return view;
}

Result<FramePtr> Frames::load(const Access& access, const FrameRef& ref, FrameKind kind) {
  SPACE_TRY(auto frames, load_many(access, std::span(&ref, 1), kind));
  return std::move(frames.front());
}

Result<std::vector<FramePtr>> Frames::load_many(const Access& access, std::span<const FrameRef> refs,
                                                FrameKind kind) {
  std::vector<FramePtr> frames(refs.size());
  std::vector<Key> keys(refs.size());
  for (std::size_t i = 0; i < refs.size(); ++i) {
    SPACE_TRY(auto owner, access.keys(refs[i].realm));
    keys[i] = {owner->tenant(), refs[i].pack, refs[i].offset};
  }
  // Take what is there and claim what nobody loads yet; load that; only then wait for what others load, so
  // that no two threads wait for each other.
  for (;;) {
    std::vector<Claim> claims;
    bool waiting = false;
    {
      std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < refs.size(); ++i) {
        if (frames[i]) continue;
        auto [found, fresh] = entries_.try_emplace(keys[i]);
        if (fresh) {
          uses_.push_front(keys[i]);
          found->second.use = uses_.begin();
          claims.push_back({keys[i], refs[i], *access.keys(refs[i].realm), i});
        } else if (found->second.frame) {
          frames[i] = found->second.frame;
          uses_.splice(uses_.begin(), uses_, found->second.use);
        } else {
          waiting = true;
        }
      }
    }
    if (!claims.empty()) {
      std::sort(claims.begin(), claims.end(), [](const Claim& a, const Claim& b) {
        return std::tie(a.key.pack, a.key.offset) < std::tie(b.key.pack, b.key.offset);
      });
      if (auto loaded = load_claimed(claims, kind, frames); !loaded.ok()) {
        abandon(claims);
        return std::move(loaded).error();
      }
      continue;
    }
    if (!waiting) break;
    std::unique_lock lock(mutex_);
    loaded_.wait(lock, [&] {
      return std::ranges::none_of(keys, [&](const Key& key) {
        auto found = entries_.find(key);
        return found != entries_.end() && !found->second.frame;
      });
    });
  }
  {
    std::lock_guard lock(mutex_);
    evict();
  }
  return frames;
}

Result<void> Frames::load_claimed(std::span<const Claim> claims, FrameKind kind,
                                  std::vector<FramePtr>& frames) {
  auto opener = take_opener();
  std::size_t first = 0;
  Bytes run;
  while (first < claims.size()) {
    const Claim& head = claims[first];
    std::uint64_t begin = head.ref.offset;
    std::uint64_t end = begin + head.ref.stored;
    std::size_t next = first + 1;
    while (next < claims.size() && claims[next].key.pack == head.key.pack &&
           claims[next].key.owner == head.key.owner && claims[next].ref.offset <= end + kMaxGapBytes &&
           claims[next].ref.offset + std::uint64_t{claims[next].ref.stored} - begin <= kMaxRunBytes) {
      end = std::max(end, claims[next].ref.offset + std::uint64_t{claims[next].ref.stored});
      ++next;
    }
    auto wrong = [&](Error cause, std::uint32_t offset) {
      return frame_error(std::move(cause), head.key.owner, head.key.pack, offset);
    };
    if (head.ref.stored > kMaxFrameStoredBytes) {
      return wrong(make_error(Code::kDataLoss, "store.malformed", "reference is too long"), head.ref.offset);
    }
    auto key = pack_key(*head.keys, head.key.pack);
    if (!key.ok()) return std::move(key).error();
    run.resize(end - begin);
    auto read = objects_.get_range(pack_name(head.key.owner, head.key.pack), begin, run);
    if (!read.ok()) return wrong(std::move(read).error(), head.ref.offset);
    for (; first < next; ++first) {
      const Claim& claim = claims[first];
      auto plain = opener->open(**key, claim.ref.offset,
                                ByteView(run).subspan(claim.ref.offset - begin, claim.ref.stored), kind);
      if (!plain.ok()) return wrong(std::move(plain).error(), claim.ref.offset);
      frames[claim.index] = std::make_shared<const Frame>(std::move(plain).value());
      publish(claim.key, frames[claim.index]);
    }
  }
  give_opener(std::move(opener));
  return {};
}

void Frames::publish(const Key& key, FramePtr frame) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(key);
  if (found == entries_.end()) return;  // dropped meanwhile: the asker will find nothing and load anew
  bytes_ += frame->plain().size();
  found->second.frame = std::move(frame);
  loaded_.notify_all();
}

void Frames::abandon(std::span<const Claim> claims) {
  std::lock_guard lock(mutex_);
  for (const Claim& claim : claims) {
    auto found = entries_.find(claim.key);
    if (found == entries_.end() || found->second.frame) continue;
    uses_.erase(found->second.use);
    entries_.erase(found);
  }
  loaded_.notify_all();
}

void Frames::evict() {
  auto at = uses_.end();
  while (bytes_ > limit_ && at != uses_.begin()) {
    --at;
    auto found = entries_.find(*at);
    if (!found->second.frame) continue;  // being loaded
    bytes_ -= found->second.frame->plain().size();
    entries_.erase(found);
    at = uses_.erase(at);
  }
}

Result<std::shared_ptr<const PackKey>> Frames::pack_key(const Keys& keys, const PackId& pack) {
  std::uint64_t drops = 0;
  {
    std::lock_guard lock(mutex_);
    auto found = pack_keys_.find(pack);
    if (found != pack_keys_.end() && found->second.first == keys.tenant()) return found->second.second;
    drops = drops_;
  }
  std::byte header_bytes[kPackHeaderBytes];
  auto read = objects_.get_range(pack_name(keys.tenant(), pack), 0, header_bytes);
  if (!read.ok()) return frame_error(std::move(read).error(), keys.tenant(), pack, 0);
  auto header = decode_pack_header(header_bytes);
  if (header.ok() && header->id != pack) {
    header = make_error(Code::kDataLoss, "store.malformed", "pack carries another pack's id");
  }
  if (!header.ok()) return frame_error(std::move(header).error(), keys.tenant(), pack, 0);
  auto derived = derive_pack_key(keys, header_bytes, *header);
  if (!derived.ok()) return frame_error(std::move(derived).error(), keys.tenant(), pack, 0);
  auto key = std::make_shared<const PackKey>(std::move(derived).value());
  std::lock_guard lock(mutex_);
  if (drops == drops_) {
    if (pack_keys_.size() >= kMaxPackKeys) pack_keys_.erase(pack_keys_.begin());
    pack_keys_[pack] = {keys.tenant(), key};
  }
  return key;
}

Result<std::vector<FooterFrame>> Frames::footer(const Keys& keys, const PackId& pack) {
  std::string name = pack_name(keys.tenant(), pack);
  auto wrong = [&](Error cause, std::uint32_t offset) {
    return frame_error(std::move(cause), keys.tenant(), pack, offset);
  };
  SPACE_TRY(auto key, pack_key(keys, pack));
  auto bytes = objects_.size(name);
  if (!bytes.ok()) return wrong(std::move(bytes).error(), 0);
  if (*bytes < kPackHeaderBytes + kPackTrailerBytes || *bytes > kMaxPackBytes + kMaxFooterPlainBytes) {
    return wrong(make_error(Code::kDataLoss, "store.malformed", "pack has an impossible length"), 0);
  }
  std::byte raw[kPackTrailerBytes];
  auto read = objects_.get_range(name, *bytes - kPackTrailerBytes, raw);
  if (!read.ok()) return wrong(std::move(read).error(), 0);
  auto trailer = decode_pack_trailer(raw, *bytes);
  if (!trailer.ok()) return wrong(std::move(trailer).error(), static_cast<std::uint32_t>(*bytes));
  Bytes sealed(trailer->footer_stored);
  read = objects_.get_range(name, trailer->footer_offset, sealed);
  if (!read.ok()) return wrong(std::move(read).error(), trailer->footer_offset);
  auto opener = take_opener();
  auto plain = opener->open(*key, trailer->footer_offset, sealed, FrameKind::kFooter);
  give_opener(std::move(opener));
  if (!plain.ok()) return wrong(std::move(plain).error(), trailer->footer_offset);
  auto frames = decode_footer(*plain);
  if (!frames.ok()) return wrong(std::move(frames).error(), trailer->footer_offset);
  return frames;
}

void Frames::drop(const TenantId& tenant) {
  std::lock_guard lock(mutex_);
  ++drops_;
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->first.owner != tenant) {
      ++it;
      continue;
    }
    if (it->second.frame) bytes_ -= it->second.frame->plain().size();
    uses_.erase(it->second.use);
    it = entries_.erase(it);
  }
  std::erase_if(pack_keys_, [&](const auto& item) { return item.second.first == tenant; });
  loaded_.notify_all();
}

void Frames::forget_pack(const PackId& pack) {
  std::lock_guard lock(mutex_);
  pack_keys_.erase(pack);
}

std::uint64_t Frames::cached_bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

std::unique_ptr<FrameOpener> Frames::take_opener() {
  {
    std::lock_guard lock(mutex_);
    if (!openers_.empty()) {
      auto opener = std::move(openers_.back());
      openers_.pop_back();
      return opener;
    }
  }
  return std::make_unique<FrameOpener>();
}

void Frames::give_opener(std::unique_ptr<FrameOpener> opener) {
  std::lock_guard lock(mutex_);
  if (openers_.size() < kMaxOpeners) openers_.push_back(std::move(opener));
}

}  // namespace space::imager::store
