// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files, directory listings and consoles as HTTP bodies: streamed, with at most one piece in hand, so that
// size does not matter. A transfer that breaks off leaves the client with a broken answer, never with one
// that looks complete.

#include "control/api/handler.h"

namespace space::control::relay {

// The bytes of a file, whole or the range that the request names; for HEAD only what they are.
async::Task<void> download(api::Call& call, meta::SessionRow session, std::string path);
// The request's body into a file. Answers 201 and the file.
async::Task<void> upload(api::Call& call, meta::SessionRow session, guestapi::WriteFileT target);
async::Task<void> list_directory(api::Call& call, meta::SessionRow session, std::string path);
// The console: of a live sandbox from link, of an ended one what was kept.
async::Task<void> console(api::Call& call, meta::SessionRow session, bool follow);

}  // namespace space::control::relay
