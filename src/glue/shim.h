/* SPDX-License-Identifier: GPL-2.0 */
/* What shim.c offers to the Rust files beside it; ffi.rs declares the same. */
#ifndef LOGA_SHIM_H
#define LOGA_SHIM_H

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/wait.h>

/* Who a process is, in numbers of the initial namespaces. */
struct loga_identity {
	u64 key; /* never used again */
	u64 cgroup; /* of cgroup v2; 0 for none */
	u32 uid;
	u32 reserved;
};

bool loga_attach_ready(void);
bool loga_in_module_data(const struct module *mod, const void *addr);
bool loga_in_module_text(const struct module *mod, const void *addr);
const char *loga_module_name(const struct module *mod);
void loga_write_pointer(void **slot, void *value);
void loga_synchronize_rcu_tasks(void);
bool loga_cpu_online(uint cpu);
u32 loga_pci_domain(const struct pci_dev *device);
struct pid *loga_current_tgid(void);
bool loga_process_identity(struct pid *tgid, struct loga_identity *who);
struct pid *loga_find_tgid(int nr);
int loga_pid_of_key(u64 key);
u32 loga_user_of(u32 uid);
bool loga_cgroup_exists(u64 id);
bool loga_caller_is_admin(void);
void loga_leader_comm(char *buf);
void loga_thread_sleep(const u32 *wake, u64 deadline_ns);
void loga_poll_hold(void);
bool loga_poll_is_wanted_away(void);
void loga_poll_release(void);
void loga_release_fault_lock(struct vm_fault *vmf);
bool loga_fault_may_wait(const struct vm_fault *vmf);
int loga_gate_wait(wait_queue_head_t *queue, const u32 *held, bool user, u32 timeout_ms);
void loga_init_waitqueue(wait_queue_head_t *queue);
void loga_wake_all(wait_queue_head_t *queue);
void loga_own_mapping(struct address_space *space, struct file *file);
bool loga_shares_inode_mapping(const struct file *file);
void loga_return_mapping(struct file *file);
u32 loga_file_minor(const struct file *file);
u32 loga_file_major(const struct file *file);
bool loga_file_is_chrdev(const struct file *file);

/* control.c */
struct loga_directory;

int loga_control_register(void);
void loga_control_deregister(void);
struct loga_directory *loga_directory_add(uint index, const void *gpu);
void loga_directory_remove(struct loga_directory *dir);

/* In Rust: the control device. */
int loga_control_open(struct inode *inode, struct file *file);
int loga_control_release(struct inode *inode, struct file *file);
ssize_t loga_control_read(struct file *file, char __user *buf, size_t len, loff_t *pos);
__poll_t loga_control_poll(struct file *file, struct poll_table_struct *table);
long loga_control_ioctl(struct file *file, unsigned int cmd, unsigned long arg);

/* In Rust: the knobs of one GPU, by name. */
ssize_t loga_knob_show(const void *gpu, const char *name, char *buf);
ssize_t loga_knob_store(const void *gpu, const char *name, const char *buf, size_t len);

/* In Rust: what writing to and reading from the parameter `attach` does. */
int loga_attach_set(bool attach);
bool loga_attach_get(void);

#endif
