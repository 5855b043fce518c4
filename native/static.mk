# How the programs are made that start with every launch: static, with musl where
# musl-gcc is installed and no CC is chosen; else with the C library of CC; dynamic
# where that has no static form. The start of a program of glibc asks the processor
# some seventy times what it can do, and a virtual machine answers each by a trap:
# 0.5 ms, where musl takes 0.05.

CFLAGS ?= -O2 -g
OWN = -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wconversion

MUSL_CC := $(if $(filter default,$(origin CC)),$(shell command -v musl-gcc))
# The kernel's headers, behind musl's own; its macros for control messages mix signs.
MUSL_FLAGS = -idirafter /usr/include \
    -idirafter /usr/include/$(shell $(CC) -print-multiarch) -Wno-sign-conversion

# $(call make_static,SOURCES): the target, from these.
make_static = $(if $(MUSL_CC),$(MUSL_CC) $(OWN) $(MUSL_FLAGS) $(CFLAGS) -static \
    $(LDFLAGS) -o $@.new $(1) ||) \
    $(CC) $(OWN) $(CFLAGS) -static $(LDFLAGS) -o $@.new $(1) || \
    $(CC) $(OWN) $(CFLAGS) $(LDFLAGS) -o $@.new $(1) && \
    mv $@.new $@
