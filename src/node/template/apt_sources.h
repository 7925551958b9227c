// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which package archive a build uses: the one this machine uses. Nothing here names a server.
//
// Reads /etc/apt/sources.list and sources.list.d (both forms), and keeps what is Debian's own for the
// recipe's suite: suites NAME, NAME-updates and NAME-security, component main, signed by Debian's key ring or
// by no named key, with a path that has a part beginning with "debian". Third-party archives on the machine
// are left out.

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace space::node::tmpl {

struct AptSource {
  std::vector<std::string> uris;
  std::vector<std::string> suites;
  std::vector<std::string> components;
  std::string signed_by;  // key ring path or an inline key (then with its newlines), empty for none
  bool trusted = false;   // [trusted=yes]: no signature wanted

  bool operator==(const AptSource&) const = default;
};

// One-line form, a file of it. Lines that aren't understood are skipped, as are deb-src and disabled ones.
// Pure.
std::vector<AptSource> parse_one_line_sources(std::string_view text);
// deb822 form. Pure.
std::vector<AptSource> parse_deb822_sources(std::string_view text);

// The part of `all` that a build of `suite` may use; empty when there is none. Pure.
std::vector<AptSource> select_debian(const std::vector<AptSource>& all, std::string_view suite);

// deb822 text of `sources`.
std::string to_deb822(const std::vector<AptSource>& sources);

// Everything above on the files below `etc_apt` ("/etc/apt").
// Errors: failed_precondition template.no_sources.
Result<std::string> debian_sources(const std::string& etc_apt, std::string_view suite);

// The lines of apt configuration that say how this machine reaches its archive (proxies, retries, date
// checks), from what `apt-config dump` prints. Pure.
std::string transport_settings(std::string_view apt_config_dump);

}  // namespace space::node::tmpl
