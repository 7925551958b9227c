// SPDX-License-Identifier: Apache-2.0
#include "guest/call/list_directory_call.h"

#include "guest/file/path.h"

namespace space::guest {

void ListDirectoryCall::read_page() {
  auto page = std::make_shared<Result<guestapi::DirectoryPageT>>();
  run(
      [this, page] {
        if (!opened_) {
          auto opened = check_path(request_.path);
          if (opened.ok()) opened = reader_.open(request_.path);
          if (!opened.ok()) {
            *page = std::move(opened).error();
            return;
          }
          opened_ = true;
        }
        *page = reader_.next();
      },
      [this, page] {
        if (!page->ok()) return finish(std::move(*page).error());
        if ((*page)->entries.empty()) {
          at_end_ = true;
          return finish({});
        }
        send(std::move(*page).value());
      });
}

bool ListDirectoryCall::pump_more() {
  if (!busy() && !at_end_ && !finishing()) read_page();
  return false;
}

}  // namespace space::guest
