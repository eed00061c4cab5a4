// SPDX-License-Identifier: Apache-2.0

// Nothing: what it includes is precompiled for other programs.
