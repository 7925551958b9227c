// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers that both sides of a jail's start agree on.

namespace space::node::slot::internal {

inline constexpr int kPlanFd = 3;
inline constexpr int kControlFd = 4;
// Exit status when the clone could not even execute the jail mode.
inline constexpr int kCloneFailed = 123;
inline constexpr int kJailFailed = 124;

}  // namespace space::node::slot::internal
