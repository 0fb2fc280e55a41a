// objc_msgSend in its three forms: look the method up and jump to it with all arguments as they were. That cannot be
// written in C++, which would have to know the arguments.
//
// stret: the receiver comes second, after the address for a large result. fpret: as plain here.

#if defined(__x86_64__)

// Registers that can hold arguments: xmm0-7, rdi, rsi, rdx, rcx, r8, r9, and al for variadic calls.
#define ENTRY_POINT(name, receiver_first)       \
  asm(".text\n"                                 \
      ".globl " name                            \
      "\n"                                      \
      ".type " name ", @function\n" name        \
      ":\n"                                     \
      "  pushq %rbp\n"                          \
      "  movq %rsp, %rbp\n"                     \
      "  subq $192, %rsp\n"                     \
      "  movups %xmm0, -192(%rbp)\n"            \
      "  movups %xmm1, -176(%rbp)\n"            \
      "  movups %xmm2, -160(%rbp)\n"            \
      "  movups %xmm3, -144(%rbp)\n"            \
      "  movups %xmm4, -128(%rbp)\n"            \
      "  movups %xmm5, -112(%rbp)\n"            \
      "  movups %xmm6, -96(%rbp)\n"             \
      "  movups %xmm7, -80(%rbp)\n"             \
      "  movq %rdi, -64(%rbp)\n"                \
      "  movq %rsi, -56(%rbp)\n"                \
      "  movq %rdx, -48(%rbp)\n"                \
      "  movq %rcx, -40(%rbp)\n"                \
      "  movq %r8, -32(%rbp)\n"                 \
      "  movq %r9, -24(%rbp)\n"                 \
      "  movq %rax, -16(%rbp)\n" receiver_first \
      "  call software_metal_lookup\n"          \
      "  movq %rax, %r11\n"                     \
      "  movups -192(%rbp), %xmm0\n"            \
      "  movups -176(%rbp), %xmm1\n"            \
      "  movups -160(%rbp), %xmm2\n"            \
      "  movups -144(%rbp), %xmm3\n"            \
      "  movups -128(%rbp), %xmm4\n"            \
      "  movups -112(%rbp), %xmm5\n"            \
      "  movups -96(%rbp), %xmm6\n"             \
      "  movups -80(%rbp), %xmm7\n"             \
      "  movq -64(%rbp), %rdi\n"                \
      "  movq -56(%rbp), %rsi\n"                \
      "  movq -48(%rbp), %rdx\n"                \
      "  movq -40(%rbp), %rcx\n"                \
      "  movq -32(%rbp), %r8\n"                 \
      "  movq -24(%rbp), %r9\n"                 \
      "  movq -16(%rbp), %rax\n"                \
      "  leave\n"                               \
      "  jmp *%r11\n"                           \
      ".size " name ", .-" name "\n")

ENTRY_POINT("objc_msgSend", "");
ENTRY_POINT("objc_msgSend_fpret", "");
ENTRY_POINT("objc_msgSend_stret", "  movq %rsi, %rdi\n  movq %rdx, %rsi\n");

#elif defined(__aarch64__)

// Registers that can hold arguments: q0-7, x0-7, and x8, the address for a large result; so there is only one form.
asm(R"(
.text
.globl objc_msgSend
.type objc_msgSend, %function
objc_msgSend:
  stp x29, x30, [sp, #-224]!
  mov x29, sp
  stp q0, q1, [sp, #96]
  stp q2, q3, [sp, #128]
  stp q4, q5, [sp, #160]
  stp q6, q7, [sp, #192]
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  bl software_metal_lookup
  mov x16, x0
  ldp q0, q1, [sp, #96]
  ldp q2, q3, [sp, #128]
  ldp q4, q5, [sp, #160]
  ldp q6, q7, [sp, #192]
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp x29, x30, [sp], #224
  br x16
.size objc_msgSend, .-objc_msgSend
)");

#else
#error "objc_msgSend is written for x86-64 and AArch64 only"
#endif
