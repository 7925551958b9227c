// SPDX-License-Identifier: Apache-2.0
#include "integration/node/qemu_fixture.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdlib>
#include <filesystem>

#include "api/link_generated.h"
#include "lib/os/file.h"
#include "lib/os/unix_socket.h"
#include "lib/wire/message.h"
#include "node/process/run.h"
#include "node/template/manifest.h"

namespace space::node::testing {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kSmallDisk = 64ULL << 20;

std::string kernel_dir() {
  const char* dir = std::getenv("SPACE_TEST_KERNEL_DIR");
  return dir == nullptr ? std::string() : std::string(dir);
}

void must_run(std::vector<std::string> argv) {
  std::string shown = argv[0];
  auto finished = process::run({std::move(argv), {}, std::chrono::minutes(1)});
  ASSERT_TRUE(finished.ok()) << finished.error().describe();
  ASSERT_EQ(finished->exit_code, 0) << shown << ": " << finished->output;
}

std::string kernel_image() {
  for (const auto& entry : fs::directory_iterator(kernel_dir() + "/boot")) {
    if (entry.path().filename().string().starts_with("vmlinuz-")) return entry.path().string();
  }
  return {};
}

void write_manifest(const std::string& dir, const tmpl::Manifest& manifest) {
  os::write_file_atomic(dir + "/" + tmpl::kManifestFile, tmpl::to_json(manifest), os::Durability::kBuffered,
                        0644)
      .value();
}

}  // namespace

std::string QemuFixture::base_template() {
  std::string dir = SPACE_SOURCE_DIR "/build/templates/base";
  return tmpl::load_manifest(dir).ok() ? dir : std::string();
}

void QemuFixture::SetUp() {
  if (!os::exists("/usr/bin/qemu-system-x86_64")) GTEST_SKIP() << "QEMU is not installed";
  if (base_template().empty() && (kernel_dir().empty() || !os::exists("/bin/busybox"))) {
    GTEST_SKIP() << "no template: build/templates/base is not built and SPACE_TEST_KERNEL_DIR names no "
                    "unpacked kernel package";
  }
  NodeFixture::SetUp();
}

void QemuFixture::make_template(const std::string& dir) {
  if (std::string base = base_template(); !base.empty()) {
    // The same files under the name that the tests use.
    for (const char* file : {tmpl::kDiskFile, tmpl::kKernelFile, tmpl::kInitramfsFile})
      fs::create_symlink(base + "/" + file, dir + "/" + file);
    tmpl::Manifest manifest = *tmpl::load_manifest(base);
    manifest.name = "test";
    write_manifest(dir, manifest);
    return;
  }
  std::string root = dir_ + "/root";
  for (const char* name : {"/bin", "/sbin", "/etc", "/proc", "/sys", "/dev", "/run", "/tmp", "/root"})
    fs::create_directories(root + name);
  must_run({"cp", "/bin/busybox", root + "/bin/busybox"});
  for (const char* tool : {"sh", "true", "echo", "cat", "dd", "sleep", "sync"})
    fs::create_symlink("busybox", root + "/bin/" + tool);
  os::write_file_atomic(root + "/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", os::Durability::kBuffered,
                        0644)
      .value();
  std::string disk = dir + "/" + tmpl::kDiskFile;
  must_run({"truncate", "-s", std::to_string(kSmallDisk), disk});
  must_run({"mke2fs", "-q", "-t", "ext4", "-d", root, disk});
  must_run({"cp", kernel_image(), dir + "/" + tmpl::kKernelFile});
  must_run({SPACE_SOURCE_DIR "/templates/mkinitramfs", "--spaced", SPACED_BINARY, "--kernel-modules",
            kernel_dir() + "/lib/modules", "--out", dir + "/" + tmpl::kInitramfsFile});
  tmpl::Manifest manifest;
  manifest.name = "test";
  manifest.suite = "none";
  manifest.disk_bytes = kSmallDisk;
  manifest.recipe_digest = manifest.disk_sha256 = manifest.initramfs_sha256 = std::string(64, '0');
  manifest.kernel_version = "0";
  write_manifest(dir, manifest);
}

Result<nodeapi::SandboxInfoT> QemuFixture::boot(const std::string& sandbox) {
  return create(sandbox, [](auto& body) {
    auto manifest = tmpl::load_manifest(SPACE_SOURCE_DIR "/build/templates/base");
    body.resources->memory_bytes = 256ULL << 20;
    body.resources->disk_bytes =
        std::max<std::uint64_t>(1ULL << 30, manifest.ok() ? manifest->disk_bytes : 0);
  });
}

Result<void> QemuFixture::ask_guest(const std::string& sandbox, Bytes guest_request) {
  async::Loop loop(1);
  auto socket = os::connect_unix(dir_ + "/link-control.sock");
  if (!socket.ok()) return std::move(socket).error();
  auto connection = rpc::Connection::ask(loop.get_executor(), std::move(*socket), random_);
  linkapi::GuestCallT body;
  body.sandbox = sandbox;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(guest_request.data());  // SAFETY: bytes alias
  body.request.assign(bytes, bytes + guest_request.size());
  Result<void> out = make_error(Code::kDeadlineExceeded, "test.deadline", "no answer in time");
  boost::asio::co_spawn(
      loop,
      [](rpc::Connection& to, Bytes request, Result<void>& result, async::Loop& stop) -> async::Task<void> {
        auto attached = co_await to.wait_attached(std::chrono::seconds(10));
        if (attached.ok()) {
          auto answer = co_await to.unary(std::move(request), std::chrono::seconds(30));
          result = answer.ok() ? Result<void>() : Result<void>(answer.error());
        }
        stop.stop();
      }(*connection, wire::pack_body<linkapi::RequestT>(std::move(body)), out, loop),
      boost::asio::detached);
  loop.run_for(std::chrono::seconds(40));
  return out;
}

}  // namespace space::node::testing
