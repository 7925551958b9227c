// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every request of api/guest.fbs, in one place: what answers it.

#include <memory>

#include "guest/call/call.h"
#include "guest/call/services.h"

namespace space::guest {

// A malformed or unknown request gives a call that ends with wire.malformed_message or guest.unknown_request.
std::shared_ptr<Call> make_call(CallHost& host, wire::StreamId stream, Services& services, ByteView request);

}  // namespace space::guest
