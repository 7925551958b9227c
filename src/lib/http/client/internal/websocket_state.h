// SPDX-License-Identifier: Apache-2.0
#pragma once
// How Client makes a WebSocket of a connected socket.

#include <boost/asio/ip/tcp.hpp>

#include "lib/http/client/client.h"

namespace space::http::client {

async::Task<Result<Upgrade>> open_websocket(boost::asio::ip::tcp::socket socket, Endpoint endpoint,
                                            std::string target, std::vector<Header> headers);

}  // namespace space::http::client
