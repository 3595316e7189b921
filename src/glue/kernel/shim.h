/* SPDX-License-Identifier: GPL-2.0 */
/* What shim.c and process.c offer to the Rust files; ffi.rs declares the same. */
#ifndef LOGA_SHIM_H
#define LOGA_SHIM_H

#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/poll.h>
#include <linux/wait.h>

#include "compat.h"

/* Levels of cgroups that LoGA considers, from the root on: MAX_LEVELS in setting.rs. */
#define LOGA_LEVELS 16

/* Identity of a process, in numbers of the initial namespaces. */
struct loga_identity {
	u64 key; /* never used again */
	u64 cgroup; /* of cgroup v2; 0 for none */
	u64 above[LOGA_LEVELS]; /* its ancestors, from the root on; the rest is 0 */
	u32 uid;
	u32 reserved;
};

bool loga_attach_ready(void);
void loga_refusals_forget(void);
void loga_refusals_add(const char *line);
bool loga_cpu_online(uint cpu);
u64 loga_random(void);
void loga_thread_bind_again(struct task_struct *task, uint cpu);
struct pid *loga_current_tgid(void);
u32 loga_process_ancestors(struct pid *tgid, u64 *keys, u32 most);
bool loga_process_identity(struct pid *tgid, struct loga_identity *identity);
struct pid *loga_find_tgid(int nr);
int loga_pid_of_key(u64 key);
int loga_file_user(struct file *file, const struct pid *wanted);
u32 loga_user_of(u32 uid);
bool loga_cgroup_place(u64 id, struct loga_identity *identity);
bool loga_cgroup_is_gone(u64 id);
u64 loga_caller_cgroup_root(void);
u32 loga_caller_user(void);
int loga_caller_nice(void);
bool loga_caller_may_change(void);
bool loga_caller_reads_all(void);
bool loga_caller_may_lower(struct pid *tgid);
void loga_process_comm(struct pid *tgid, char *buf);
u64 loga_process_cpu_time(struct pid *tgid);
void loga_get_pid(struct pid *pid);
int loga_pid_number(struct pid *tgid);
void loga_thread_sleep(const u32 *wake, u64 deadline_ns);
void loga_thread_set_fifo(struct task_struct *task);
bool loga_others_runnable(void);
void loga_thread_sleep_ns(u64 ns);
void loga_preempt_disable(void);
void loga_stay(void);
void loga_stay_no_more(void);
bool loga_need_resched(void);
void loga_preempt_enable(void);
void loga_pi_mutex_init(void *lock, const char *name, struct lock_class_key *key);
void loga_pi_mutex_lock(void *lock);
int loga_pi_mutex_lock_interruptible(void *lock);
bool loga_pi_mutex_trylock(void *lock);
void loga_pi_mutex_unlock(void *lock);
void loga_pi_mutex_assert_held(void *lock);
void loga_copy_no_more(struct vm_area_struct *copy);
void loga_release_fault_lock(struct vm_fault *vmf);
bool loga_fault_may_wait(const struct vm_fault *vmf);
int loga_store_wait(wait_queue_head_t *queue, const u32 *shut, u64 timeout_ns);
void loga_wake_some(wait_queue_head_t *queue, int count);
int loga_wait(wait_queue_head_t *queue, const u32 *empty);
void loga_zap(struct vm_area_struct *vma, unsigned long addr, unsigned long len);
bool loga_hide(struct vm_area_struct *vma);
void loga_unhide(struct vm_area_struct *vma);
int loga_refill(struct vm_area_struct *vma);
bool loga_try_zap(struct address_space *mapping);
struct file *loga_hold_file(struct file *file);
int loga_start_revocations(void);
void loga_end_revocations(void);
struct workqueue_struct *loga_revocations(void);
void *loga_map_frame(unsigned long pfn);
void loga_unmap_frame(void *frame);
int loga_store(struct vm_area_struct *vma, unsigned long addr, void *frame, const void *data,
	       unsigned int len);
int loga_make_tables(struct vm_area_struct *vma, unsigned long addr);
vm_fault_t loga_open_entry(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn,
			   bool writable);
void loga_do_not_copy(struct vm_area_struct *vma);
void loga_init_waitqueue(wait_queue_head_t *queue);
void loga_wake_all(wait_queue_head_t *queue);
void loga_own_mapping(struct address_space *space, struct file *file);
bool loga_shares_inode_mapping(const struct file *file);
void loga_return_mapping(struct file *file);
u32 loga_file_minor(const struct file *file);

/* driver.c */
typedef long (*loga_ioctl_t)(struct file *file, unsigned int cmd, unsigned long arg);

/* A card as the driver describes it. */
struct loga_card {
	u64 bar0; /* physical address */
	u32 domain;
	u32 minor;
	u8 bus;
	u8 slot;
	u8 reserved[6];
};

struct file *loga_open_node(uint major, uint minor);
void loga_close_node(struct file *file);
int loga_ask_cards(struct file *control, loga_ioctl_t ioctl, struct loga_card *cards, uint room);
bool loga_in_module_data(const struct module *mod, const void *addr);
bool loga_in_module_text(const struct module *mod, const void *addr);
bool loga_module_is_live(const struct module *mod);
const char *loga_module_name(const struct module *mod);
const char *loga_module_version(const struct module *mod);
void loga_hold(const struct module *driver);
void loga_unhold(const struct module *driver);
bool loga_exchange_pointer(void **slot, void *old, void *new);
void *loga_does_nothing(void);
void loga_synchronize_rcu_tasks(void);
bool loga_sleep_killable(uint ms);
const struct module *loga_driver_of(const struct pci_dev *device);
void loga_device_lock(struct pci_dev *device);
void loga_device_unlock(struct pci_dev *device);
u32 loga_pci_domain(const struct pci_dev *device);

/* notices.c */
int loga_notices_begin(void);
void loga_notices_end(void);

/* In Rust: called by the notifiers of notices.c. */
bool loga_is_waiting(void);
void loga_driver_appeared(void);
void loga_device_goes(struct pci_dev *device);
void loga_machine_sleeps(bool sleeps);
void loga_cpu_came(uint cpu);

/* control.c */
struct loga_directory;

int loga_wake_wq_start(void);
void loga_wake_wq_stop(void);
void loga_wake_init(struct work_struct *work);
bool loga_wake_later(struct work_struct *work);
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

/* In Rust: wakes the threads that wait for events of a listener. */
void loga_listener_wake(struct work_struct *work);

/* Most knobs: MAX_KNOBS in Rust. */
#define LOGA_KNOBS 16

/*
 * In Rust: the name of a knob, NULL after the last, and whether it can be
 * changed; reading and writing the knobs of one GPU, by name.
 */
const char *loga_knob_name(size_t knob, bool *live);
ssize_t loga_knob_show(const void *gpu, const char *name, char *buf);
ssize_t loga_knob_store(const void *gpu, const char *name, const char *buf, size_t len);

/* In Rust: writes to and reads from the parameter `attach`. */
int loga_attach_set(bool attach);
bool loga_attach_get(void);

#endif
