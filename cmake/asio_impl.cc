// SPDX-License-Identifier: Apache-2.0
// The one translation unit that holds Asio's non-template code.
#include <boost/asio/impl/src.hpp>
